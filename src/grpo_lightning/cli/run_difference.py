"""What differs between a run that was interrupted and one that was not."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.cli.killed_fit import PROMPTS
from grpo_lightning.cli.run_folder import RunFolder
from grpo_lightning.rollout.progress import KEY
from grpo_lightning.strategies.checkpoint_files import CheckpointFiles

PARTS = ("weights", "optimizer", "state", "metrics")
"""What is compared: weights; optimizers and learning rate schedules; curriculum, selectors, coefficients and the rollout in
progress; every logged metric that is no time."""


@dataclass(frozen=True)
class Difference:
    """What two runs do not have in common, by part; nothing where they are equal bit for bit."""

    found: dict[str, list[str]]
    compared: dict[str, int]
    """Numbers, texts and tensors that were compared."""

    @property
    def equal(self) -> bool:
        """Whether there is none."""
        return not any(self.found.values())


def difference(one: RunFolder, other: RunFolder) -> Difference:
    """Compare the last checkpoints of two runs and all that they logged."""
    states = [_parts(folder) for folder in (one, other)]
    found: dict[str, list[str]] = {}
    compared = {}
    for part in PARTS:
        first, second = (dict(_leaves(state[part])) for state in states)
        compared[part] = len(first)
        names = [*first, *(name for name in second if name not in first)]
        found[part] = [name for name in names if not _equal(first.get(name), second.get(name))]
    return Difference(found, compared)


def _parts(folder: RunFolder) -> dict[str, Any]:
    checkpoint = CheckpointFiles().load_checkpoint(folder.last, weights_only=True)
    own = checkpoint[KEY]
    return {
        "weights": checkpoint["state_dict"],
        "optimizer": [checkpoint["optimizer_states"], checkpoint["lr_schedulers"]],
        "state": [own["components"], own["buffers"], own["reference"].get("sha256"), checkpoint["global_step"]],
        "metrics": metrics_by_step(folder.path / "metrics.csv"),
    }


def metrics_by_step(path: Path) -> dict[str, dict[str, str]]:
    """What was logged at each step, but for times and what is counted by them."""
    found: dict[str, dict[str, str]] = {}
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            kept = {name: value for name, value in line.items() if value not in ("", None) and not _is_time(name)}
            found.setdefault(line["step"], {}).update(kept)
    return found


def _is_time(name: str) -> bool:
    return name.startswith("time/") or "/time/" in name or "per_second" in name or name.endswith("seconds")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _leaves(each, f"{name}.{index}" if name else str(index))
    else:
        yield name, value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        return same and bool(torch.equal(one.nan_to_num(7.25), other.nan_to_num(7.25))) and _same_nans(one, other)
    both = one == other or (one != one and other != other)
    return type(one) is type(other) and bool(both)


def _same_nans(one: Tensor, other: Tensor) -> bool:
    return not one.is_floating_point() or torch.equal(one.isnan(), other.isnan())


def prompts_lost(folder: RunFolder) -> list[str]:
    """What is wrong with the prompts of a run that was interrupted: a rollout that is missing, or one that was sampled again,
    after a kill, with other prompts."""
    asked: dict[int, list[int]] = {}
    wrong = []
    for line in (folder.path / PROMPTS).read_text().splitlines():
        entry = json.loads(line)
        if asked.setdefault(entry["rollout"], entry["prompts"]) != entry["prompts"]:
            wrong.append(f"rollout {entry['rollout']} was sampled again with other prompts")
    wrong += [f"rollout {index} is missing" for index in range(max(asked, default=0)) if index not in asked]
    return wrong
