"""A run that stops anywhere and goes on is the uninterrupted run, bit for bit."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from grpo_lightning import GRPOModule, create
from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.settings import AuxiliaryTerm
from helpers.tiny_runs import tiny_data, tiny_module, tiny_trainer, weights

UPDATES = 12


class Stop(pl.Callback):
    """Raises inside a run."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        if batch_idx == self.batch:
            raise RuntimeError("stopped on purpose")


class Losses(pl.Callback):
    """Keeps what every update reports, but for times."""

    def __init__(self) -> None:
        self.metrics: dict[int, dict[str, float]] = {}

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:  # type: ignore[no-untyped-def]
        report = outputs.get("update")
        if report is not None:
            self.metrics[report.update] = {k: v for k, v in report.metrics.items() if not k.startswith("time/")}


def _fit(
    folder: Path, *callbacks: pl.Callback, checkpoint: str | None = None, module: GRPOModule | None = None
) -> tuple[torch.Tensor, dict, object]:
    pl.seed_everything(5, verbose=False)
    module, losses = module or tiny_module(), Losses()
    trainer = tiny_trainer(folder, UPDATES, callbacks=[*callbacks, losses])
    trainer.fit(module, datamodule=tiny_data(), ckpt_path=checkpoint)
    return weights(module), losses.metrics, trainer.optimizers[0].state_dict()


def _saver(folder: Path, **settings: object) -> ModelCheckpoint:
    return ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor, dict, object]:
    folder = tmp_path_factory.mktemp("straight")
    return folder, *_fit(folder, _saver(folder))


def _assert_same(resumed: tuple, expected: tuple) -> None:  # type: ignore[type-arg]
    weights_resumed, metrics_resumed, optimizer_resumed = resumed
    _, weights_straight, metrics_straight, optimizer_straight = expected
    assert torch.equal(weights_resumed, weights_straight)
    for update, metrics in metrics_resumed.items():
        assert metrics == metrics_straight[update], update
    assert max(metrics_resumed) == UPDATES
    for name, state in optimizer_straight["state"].items():
        for key, value in state.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(optimizer_resumed["state"][name][key]))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 6, 7, 10, 11])
def test_resumed_run_is_the_straight_run(straight, step: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    # 1: in the warm-up; 2: between warm-up and GRPO; 3 to 5: inside a rollout of four updates; 6, 10: between rollouts.
    resumed = _fit(tmp_path, checkpoint=str(straight[0] / f"step={step}.ckpt"))
    _assert_same(resumed, straight)


@pytest.mark.parametrize("update", [1, 4, 6])
@pytest.mark.parametrize("inside", [0, 1])
@pytest.mark.timeout(60)
def test_stopped_inside_an_update_and_resumed(straight, update: int, inside: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pl.seed_everything(5, verbose=False)
    module = tiny_module()
    items = 2  # micro-batches of an update, see test_schedule_of_the_tiny_run
    saver = ModelCheckpoint(tmp_path, filename="stopped", save_on_exception=True, every_n_train_steps=10_000)
    trainer = tiny_trainer(tmp_path, UPDATES, callbacks=[saver, Stop(update * items + inside)])
    with pytest.raises(RuntimeError, match="on purpose"):
        trainer.fit(module, datamodule=tiny_data())
    saved = list(tmp_path.glob("*.ckpt"))
    assert len(saved) == 1, saved
    assert torch.load(saved[0], weights_only=True)["global_step"] == update
    _assert_same(_fit(tmp_path / "again", checkpoint=str(saved[0])), straight)


def test_schedule_of_the_tiny_run(tmp_path: Path) -> None:
    module = tiny_module()
    tiny_trainer(tmp_path, 2).fit(module, datamodule=tiny_data())
    # Rows have at most 4 + 5 tokens, so 4 fit into 40; an update has at most 2 groups of 4 rows, the warm-up 8 rows.
    assert (module.schedule.micro_batches, module.schedule.updates_per_rollout) == (2, 4)


def _stateful() -> GRPOModule:
    """Everything that carries a state of its own beside the loop's: baselines, coefficients, an auxiliary stream."""
    return tiny_module(
        advantage=create("advantage", "rae", columns=["answer"]),
        loss=create("loss", "kl_cov", fraction=0.2),
        kl=KLTerm(estimator=create("kl", "k1"), weight=0.1, where="reward", target=0.01, horizon=40),
        entropy=EntropyBonus(weight=0.01, target=2.0),
        auxiliary=[AuxiliaryTerm(loss=Supervised(), weight=0.3, final_weight=0.1, decay_updates=9, rows=4)],
    )


def test_state_of_components_is_resumed(tmp_path: Path) -> None:
    straight = tmp_path / "straight"
    expected = (straight, *_fit(straight, _saver(straight), module=_stateful()))
    for step in (4, 6):
        again = _fit(tmp_path / str(step), checkpoint=str(straight / f"step={step}.ckpt"), module=_stateful())
        _assert_same(again, expected)
    saved = torch.load(straight / "step=6.ckpt", weights_only=True)["grpo_lightning"]["components"]
    assert {"advantage", "kl", "entropy"} <= saved.keys()
    assert saved["kl"]["weight"] != 0.1
    assert len(saved["advantage"]["baselines"]) > 1
