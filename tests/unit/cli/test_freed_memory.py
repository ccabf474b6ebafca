"""Freed memory is kept, measured by what a process holds after a large tensor is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
import torch
from grpo_lightning.cli.freed_memory import keep_freed_memory

def held():
    line, = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) // 1024

kept = keep_freed_memory()
torch.ones(1)
before = held()
large = torch.ones(128 * 2**18)
large = None
print(kept, held() - before > 100)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize(("variables", "said"), [({}, "True True"), ({"MALLOC_TOP_PAD_": "0"}, "False False")])
def test_a_large_block_stays_unless_the_user_decides(variables: dict[str, str], said: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.stdout.strip() == said, ended.stderr
