"""State of which every process holds a part: gathered, and dealt out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from helpers.launched_ranks import TESTS, run_commands
from helpers.tiny_policy import save_model, small_llama

HELPERS = TESTS / "helpers"


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_state_is_gathered_and_dealt(ranks: int, tmp_path: Path) -> None:
    _all_pass("sharded_tensors.py", ranks, tmp_path)


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("ranks", [1, 3])
def test_only_the_first_process_reads_weights(ranks: int, tmp_path: Path) -> None:
    tied = save_model(tmp_path / "tied", small_llama(tie_word_embeddings=True))
    _all_pass("spread_start.py", ranks, tmp_path, tied, save_model(tmp_path / "apart"))


def _all_pass(script: str, ranks: int, tmp_path: Path, *words: str) -> None:
    start = [sys.executable, str(HELPERS / script)]
    commands = [[*start, str(rank), str(ranks), str(tmp_path / "meet"), *words] for rank in range(ranks)]
    for done in run_commands(commands, seconds=100):
        assert done.returncode == 0, done.stderr[-3000:]
