"""State of which every process holds a part: gathered, and dealt out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from helpers.launched_ranks import TESTS, run_commands

SCRIPT = TESTS / "helpers" / "sharded_tensors.py"


@pytest.mark.multiprocess
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_state_is_gathered_and_dealt(ranks: int, tmp_path: Path) -> None:
    commands = [[sys.executable, str(SCRIPT), str(rank), str(ranks), str(tmp_path / "meet")] for rank in range(ranks)]
    for done in run_commands(commands, seconds=60):
        assert done.returncode == 0, done.stderr[-3000:]
