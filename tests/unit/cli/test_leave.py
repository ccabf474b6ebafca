"""How a process ends: the Python way, or at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import atexit, sys
import torch.distributed as dist
from grpo_lightning.cli.main import leave
ranks = int(sys.argv[1])
if ranks:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.get_world_size = lambda: ranks
atexit.register(lambda: print("at exit"))
print("said before", end=" ")
leave(int(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("ranks", "code", "said"),
    [
        (0, 1, "said before at exit\n"),
        (1, 1, "said before at exit\n"),
        (2, 0, "said before at exit\n"),
        (2, 1, "said before "),
    ],
)
def test_a_rank_that_failed_ends_at_once_with_its_code(ranks: int, code: int, said: str) -> None:
    """What Python does at its end could abort where other ranks are gone; all else leaves in order."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(ranks), str(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ,
    )
    assert (ended.returncode, ended.stdout) == (code, said), ended.stderr
