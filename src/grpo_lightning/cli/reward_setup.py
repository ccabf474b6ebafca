"""The rewards of a configuration, built as a run builds them, without a model, a Trainer or data."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_lightning.cli.arguments import Arguments
from grpo_lightning.cli.checks import Checker
from grpo_lightning.cli.locate import plan
from grpo_lightning.cli.resolve import Resolver
from grpo_lightning.errors import near_matches, require
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.composer import check_entries, counts, entry_name
from grpo_lightning.rewards.entry import RewardEntry


@dataclass(frozen=True)
class RewardSetup:
    """A list of rewards and where it comes from."""

    title: str
    entries: list[RewardEntry]
    config: Mapping[str, Any]
    """The whole configuration, as it is written."""

    @property
    def rollout_rows(self) -> int:
        """Rows that a rollout of the configuration has."""
        model = self.config.get("model") or {}
        sizes = [model.get(name, usual) for name, usual in (("group_size", 8), ("prompts_per_rollout", 16))]
        return int(sizes[0] * sizes[1]) if all(isinstance(size, int) for size in sizes) else 128


class _Model:
    """The part of a model's settings that is built here."""

    def __init__(self, *, rewards: list[RewardEntry]) -> None:
        self.rewards = rewards


def reward_setup(files: list[str], known: Registry) -> RewardSetup:
    """The rewards of ``model.rewards`` in some files that are laid over each other, as for ``fit``.

    Args:
        files: Paths. ``#NAME`` after the last one picks the entry of that name, by itself.
        known: What names mean.

    Raises:
        ConfigError: If the configuration is wrong, as ``fit`` would say it.
    """
    last, _, name = files[-1].partition("#")
    paths = [Path(file) for file in (*files[:-1], last)]
    for path in paths:
        # A reward in a file beside the configuration is found from wherever the command is run.
        sys.path.append(str(path.absolute().parent))
    config = plan("fit", Arguments(configs=paths)).config
    resolver, model = Resolver(known), config.get("model") or {}
    require(
        isinstance(model, dict), "model", model, "is no group of settings", "write model: and its settings below it"
    )
    given = {"rewards": copy.deepcopy(model["rewards"])} if "rewards" in model else {}
    resolved = _configured(resolver.parameters(given, _Model, "model"), config, known)
    entries: list[RewardEntry] = Checker(resolver).parameters(
        resolver.parameters(resolved, _Model, "model"), _Model, "model"
    )["rewards"]
    check_entries(entries, "model.rewards")
    if name:
        entries = [_alone(entries, name)]
    return RewardSetup(", ".join(files), entries, config)


def _configured(resolved: dict[str, Any], config: Mapping[str, Any], known: Registry) -> dict[str, Any]:
    """The same after the hook ``grpo_configure``, which sees the other settings as they are written."""
    if not known.source.manager.hook.grpo_configure.get_hookimpls():
        return resolved
    seen = copy.deepcopy({"trainer": {}, "data": {}, **config})
    seen["model"] = {**(seen.get("model") or {}), **resolved}
    known.source.call_each("grpo_configure", config=seen)
    return {"rewards": seen["model"]["rewards"]} if "rewards" in seen["model"] else {}


def _alone(entries: list[RewardEntry], name: str) -> RewardEntry:
    """The entry of a name; one that is only logged counts, now that it is alone."""
    found = {entry_name(entry): entry for entry in entries}
    require(name in found, "model.rewards", name, "is the name of no reward", near_matches(name, found))
    entry = found[name]
    return entry if counts(entry) else replace(entry, log_only=False, weight=entry.weight or 1.0)
