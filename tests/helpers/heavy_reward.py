"""A reward whose module imports more than a reward should."""

from __future__ import annotations

import scipy

from grpo_lightning.rewards.base import Reward


class Heavy(Reward):
    """1 for every row, as long as scipy is there."""

    name = "heavy"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(bool(scipy.__version__))] * len(completions)


class HeavyOnPurpose(Heavy):
    """The same, which says so."""

    name = "heavy_on_purpose"
    heavy_imports = ("scipy",)
