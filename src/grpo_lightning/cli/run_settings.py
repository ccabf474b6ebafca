"""Settings of a run that belong to neither trainer, model nor data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grpo_lightning.errors import ConfigError, require_range


@dataclass(kw_only=True)
class WandbSettings:
    """How a run is sent to Weights & Biases.

    Args:
        project: Project it belongs to.
        name: Name of the run; by default that of its folder.
        offline: Only write files, which ``wandb sync`` sends later. By default so unless ``WANDB_MODE`` or
            ``WANDB_API_KEY`` says otherwise.
    """

    project: str = "grpo_lightning"
    name: str | None = None
    offline: bool | None = None


@dataclass(kw_only=True)
class EarlyStoppingSettings:
    """When a run that no longer improves ends.

    Args:
        monitor: Metric to watch; by default the reward on the first validation set.
        patience: Validations without improvement that are waited for.
        mode: Whether the metric should rise or fall.
        min_delta: Smallest change that counts as an improvement.
    """

    monitor: str | None = None
    patience: int = 3
    mode: Literal["max", "min"] = "max"
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        require_range("patience", self.patience, low=0)
        require_range("min_delta", self.min_delta, low=0)


@dataclass(kw_only=True)
class RunSettings:
    """What a run does around the training itself.

    Args:
        seed_everything: Seed of the run; also ``model.seed`` where that is not set.
        runs_folder: Folder in which runs are numbered.
        run_folder: Folder of this run; by default the next number in ``runs_folder``.
        save_every: Updates between two checkpoints.
        wandb: Also log to Weights & Biases.
        early_stopping: End a run that no longer improves.
        resume: Continue a run: ``auto`` for the newest one that has a checkpoint, or a checkpoint or run folder.
        run: Folder of the run to evaluate; by default the newest one.
        ckpt_path: Checkpoint to evaluate; by default the run's best, or else its last.
        profile: Measure where time, memory and operations go: ``profile.md`` and ``profile.json`` in the run's folder.
        output: File that ``predict`` writes; by default ``predictions.jsonl`` in the run's folder.
        compat: Start from the settings of another system (``trl``, ``verl``, ``openrlhf``, ``nemo_rl``): what is written
            here lies over them.
        plugins: Version of every distribution whose plugins the run was made with; written by ``fit``. Where another one is
            installed, that is told.
    """

    seed_everything: int = 0
    runs_folder: str = "runs"
    run_folder: str | None = None
    save_every: int = 50
    wandb: WandbSettings | bool = False
    early_stopping: EarlyStoppingSettings | None = None
    resume: str | None = None
    run: str | None = None
    ckpt_path: str | None = None
    profile: bool = False
    output: str | None = None
    compat: str | None = None
    plugins: dict[str, str] | None = None

    def __post_init__(self) -> None:
        require_range("save_every", self.save_every, low=1)
        require_range("seed_everything", self.seed_everything, low=0, high=2**32 - 1)


KEPT = ("runs_folder", "save_every", "wandb", "early_stopping", "compat", "plugins")
"""Settings that are written into a run's ``config.yaml``; the others say what one command does."""

_BELONGS: dict[str, tuple[str, ...]] = {
    "run_folder": ("fit",),
    "resume": ("fit",),
    "run": ("validate", "test", "predict"),
    "ckpt_path": ("validate", "test", "predict"),
    "profile": ("fit",),
    "output": ("predict",),
}


def belongs_to(name: str, command: str) -> bool:
    """Whether a setting has a meaning for a command."""
    return command in _BELONGS.get(name, (command,))


def check_command(settings: RunSettings, command: str) -> None:
    """Refuse settings of another command.

    Raises:
        ConfigError: Naming the setting and the commands it belongs to.
    """
    for name, commands in _BELONGS.items():
        value = getattr(settings, name)
        if value not in (None, False) and not belongs_to(name, command):
            instead = " (to continue a run: --resume)" if name == "ckpt_path" else ""
            raise ConfigError(name, value, f"has no meaning for {command}",
                              f"it belongs to {', '.join(commands)}{instead}")  # fmt: skip
