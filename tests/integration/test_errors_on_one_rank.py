"""What fails on one of two ranks, wherever it does, ends both of them, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.launched_ranks import run_ranks

CONFIG = Path(__file__).parents[1] / "conf" / "tiny.yaml"
SECONDS = 120
IN_STEP = "{class_path: FSDP2Strategy, init_args: {unshard_for_rollout: false}}"

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", IN_STEP], ids=["ddp", "fsdp2", "fsdp2-in-step"])
@pytest.mark.parametrize("part", ["loss=helpers.failing_rank.FailingLoss", "sampler=helpers.failing_rank.FailingSampler"],
                         ids=["update", "rollout"])  # fmt: skip
def test_an_error_on_one_rank_ends_both(part: str, strategy: str, tmp_path: Path) -> None:
    words = ["-m", "grpo_lightning", "fit", "--config", str(CONFIG), "--run_folder", str(tmp_path / "run"),
             "--trainer.devices=2", f"--trainer.strategy={strategy}", f"--model.{part}", "--data.validation=null"]  # fmt: skip
    (done,) = run_ranks(words, [{}], seconds=SECONDS)  # raises what ends a run that waits for ever
    assert done.returncode == 1
    assert "by hand, on one rank" in done.stderr
