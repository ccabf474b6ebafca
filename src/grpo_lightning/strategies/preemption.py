"""Stopping a run that a scheduler asks to stop, with everything saved."""

from __future__ import annotations

import signal
import threading
from typing import Any

from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from grpo_lightning import preemption
from grpo_lightning.rollout import world


class Preemption(Callback):
    """Lets ``SIGTERM``, and under SLURM the signal that announces the end of a job, stop training where it can be left: between
    two micro-batches, between two tokens that are sampled, and while rewards are waited for.

    The handler only remembers. Lightning's own would talk to the other processes from wherever the signal finds it, and a
    process in the midst of a collective does not come back from that. Processes agree on stopping, so all of them save.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        preemption.clear()
        if threading.current_thread() is not threading.main_thread():
            return
        for signum in _signals(trainer):
            self._before[signum] = signal.signal(signum, _handler(trainer))

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        world.together(preemption.check)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restore()

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        # A second signal must not stop what the first one has begun: saving.
        for signum in self._before:
            signal.signal(signum, signal.SIG_IGN)
        self._before.clear()
        preemption.clear()

    def _restore(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before.clear()
        preemption.clear()


def _signals(trainer: Trainer) -> list[int]:
    environment = trainer._accelerator_connector.cluster_environment
    if isinstance(environment, SLURMEnvironment) and environment.auto_requeue and environment.requeue_signal:
        return [signal.SIGTERM, environment.requeue_signal]
    return [signal.SIGTERM]


def _handler(trainer: Trainer) -> Any:
    def remember(signum: int, frame: object) -> None:
        if preemption.requested() is None and trainer.strategy.launcher is not None:
            trainer.strategy.launcher.kill(signum)  # the processes that this one has started
        preemption.request(signum)

    return remember
