"""What only wandb can show: histograms and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import WandbLogger
from torch import Tensor


def wandb_loggers(trainer: Trainer) -> list[WandbLogger]:
    """The trainer's wandb loggers."""
    return [logger for logger in trainer.loggers if isinstance(logger, WandbLogger)]


def histograms(distributions: Mapping[str, Tensor]) -> dict[str, Any]:
    """A ``wandb.Histogram`` of each of the values."""
    import wandb  # a second of import time that only runs with a wandb logger pay

    return {key: wandb.Histogram(values.tolist()) for key, values in distributions.items()}


def log_table(trainer: Trainer, key: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
    """Log ``rows`` as a table, a column for each of their keys, to every wandb logger."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    data = [[row.get(column) for column in columns] for row in rows]
    for logger in wandb_loggers(trainer):
        logger.log_table(key, columns=columns, data=data, step=step)
