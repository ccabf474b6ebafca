"""What a run does with its rewards and its engine when it ends, however it ends."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override


class RunEnd(Callback):
    """Ends what rewards and engines have started, and lets every rank hear what went wrong on one in ``predict``."""

    @override
    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        session: Any = pl_module.session
        session.evaluations.raise_together()

    @override
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        _close(pl_module)

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        _close(pl_module)


def _close(module: LightningModule) -> None:
    session: Any = getattr(module, "session", None)  # there is none where its making failed
    if session is not None:
        session.firewall.close()
        session.module.engine.close()
