from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy

from grpo_lightning.cli.checkpoints import BestCheckpoint, LastCheckpoint
from grpo_lightning.errors import ConfigError, RewardError


@pytest.mark.parametrize(
    ("strategy", "updates", "error", "saves"),
    [
        (SingleDeviceStrategy(), 3, KeyboardInterrupt(), True),
        (DDPStrategy(), 3, RewardError("broken"), True),
        (SingleDeviceStrategy(), 0, KeyboardInterrupt(), False),
        (SingleDeviceStrategy(), 3, ConfigError("a", 1, "is bad", "mend it"), False),
        (SimpleNamespace(), 3, KeyboardInterrupt(), False),
    ],
    ids=["stopped", "ddp", "before the first update", "wrong from the start", "sharded"],
)
def test_what_is_saved_when_a_run_is_stopped(
    tmp_path: Path, strategy: Any, updates: int, error: BaseException, saves: bool
) -> None:
    saved: list[str] = []
    trainer = SimpleNamespace(
        strategy=strategy, global_step=updates, current_epoch=0, callback_metrics={}, fast_dev_run=False,
        sanity_checking=False, is_global_zero=False, loggers=[],
        save_checkpoint=lambda path, weights_only: saved.append(Path(path).name),
    )  # fmt: skip
    callback, module = LastCheckpoint(tmp_path, every=10), torch.nn.Linear(1, 1)
    callback.on_exception(trainer, module, error)  # type: ignore[arg-type]
    assert saved == []  # no batch has begun: a state that is resumed may not be wholly there
    callback.on_train_batch_start(trainer, module, None, 0)  # type: ignore[arg-type]
    callback.on_exception(trainer, module, error)  # type: ignore[arg-type]
    assert saved == (["last.ckpt"] if saves else [])


def test_file_names_have_no_slashes(tmp_path: Path) -> None:
    best = BestCheckpoint(tmp_path, monitor="validation/held_out/accuracy")
    assert Path(best.format_checkpoint_name({"validation/held_out/accuracy": torch.tensor(0.5)})).name == "best.ckpt"
