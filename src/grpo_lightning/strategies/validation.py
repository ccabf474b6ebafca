"""Validation within ``fit`` when no batch has ended."""

from __future__ import annotations

from lightning.pytorch import Trainer


def validate_now(trainer: Trainer) -> None:
    """Let Lightning validate as it does every so many updates, callbacks included, while ``fit`` starts. A collective."""
    loop, connector = trainer.fit_loop.epoch_loop.val_loop, trainer._logger_connector
    first, loop.restarting = connector._first_loop_iter, False  # from its beginning
    trainer.validating = True
    try:
        loop.run()
    finally:
        trainer.training = True
        connector._first_loop_iter = first
        loop._has_run = False  # or an epoch that goes on would count as over
