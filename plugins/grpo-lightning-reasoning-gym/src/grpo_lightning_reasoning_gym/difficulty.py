"""From easy to hard, as fast as the policy learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import override

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.errors import ConfigError, near_matches, require, require_range
from grpo_lightning.functional.groups import Groups
from grpo_lightning.functional.passes import Passes
from grpo_lightning.functional.seeding import addressed_uniform
from grpo_lightning.types import RolloutTable


class Difficulty(Curriculum):
    """Data sets as levels: the next one begins when a moving mean of the present one's scores is high enough.

    A prompt's score is the mean over its valid rows. After each rollout, if ``window`` prompts of the present level have
    been seen since it began and the mean of the last ``window`` is at least ``up``, the next level begins; if it is below
    ``down``, the one before. A prompt comes from an earlier level, each equally likely, with probability ``earlier``, else
    from the present one. Within a level rows come in shuffled passes.

    Args:
        levels: Names of the data sets from easy to hard; by default their order.
        up: Mean from which on the next level begins.
        down: Mean below which the level before begins; ``None`` never goes back.
        window: Prompts that the mean is taken over.
        score: Name of the reward whose raw score counts; by default the composed reward of a row.
        success: A row counts 1 if its score is at least this, else 0; ``None`` counts the score itself.
        earlier: Share of prompts from earlier levels.
        start: Level to begin with, from 0.
    """

    name = "difficulty"

    def __init__(
        self,
        *,
        levels: list[str] | None = None,
        up: float = 0.8,
        down: float | None = None,
        window: int = 64,
        score: str | None = None,
        success: float | None = None,
        earlier: float = 0.0,
        start: int = 0,
    ) -> None:
        require(levels is None or len(levels) > 0, "levels", levels, "is empty", "name data sets, or leave it out")
        require(
            levels is None or len(set(levels)) == len(levels), "levels", levels, "names one twice", "name each once"
        )
        require_range("up", up, low_open=True, high_open=True)
        if down is not None:
            require_range("down", down, low_open=True, high=up, high_open=True)
        require_range("window", window, low=1, high_open=True)
        if success is not None:
            require_range("success", success, low_open=True, high_open=True)
        require_range("earlier", earlier, low=0, high=1, high_open=True)
        require_range("start", start, low=0, high_open=True)
        self.levels, self.up, self.down, self.window = levels, up, down, window
        self.score, self.success, self.earlier, self.start = score, success, earlier, start
        self.level = start
        """The present level, from 0."""
        self.recent: list[float] = []
        """Scores of the last prompts of the present level."""
        self._drawn = 0
        self._drawn_from: dict[str, int] = {}
        self._passes: dict[str, Passes] = {}
        self._names: list[str] = []

    @property
    def mean(self) -> float | None:
        """Mean score of the last prompts of the present level; ``None`` before the first."""
        return sum(self.recent) / len(self.recent) if self.recent else None

    @override
    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        names = list(sizes) if self.levels is None else list(self.levels)
        for name in names:
            require(name in sizes, "levels", name, "is no data set", near_matches(name, sizes))
        for name, size in sizes.items():
            require(name in names, "levels", name, "is a data set without a level", "put it in its place")
            require(size > 0, "data", name, "is a data set without rows", "remove it, or mend it")
        require(bool(names), "data", dict(sizes), "holds no data set to draw prompts from", "give one")
        require(self.start < len(names), "start", self.start, "is no level", f"set 0 to {len(names) - 1}")
        super().bind(sizes, seed)
        self._names = names
        self._passes = {name: Passes(seed, f"curriculum/{name}", size) for name, size in sizes.items()}

    @override
    def draw(self, n: int) -> list[tuple[str, int]]:
        """The next ``n`` prompts, as (data set, index)."""
        numbers_N = torch.arange(self._drawn, self._drawn + n)
        address_N2 = torch.stack([numbers_N.repeat_interleave(2), torch.arange(2).repeat(n)], dim=1)
        uniforms = addressed_uniform(self.seed, "curriculum/difficulty", address_N2).tolist()
        self._drawn += n
        chosen = []
        for mixed, place in zip(uniforms[::2], uniforms[1::2], strict=True):
            back = self.level > 0 and mixed < self.earlier
            chosen.append(self._names[min(int(place * self.level), self.level - 1) if back else self.level])
        return [(name, self._next(name)) for name in chosen]

    @override
    def observe(self, prompts: list[tuple[str, int]], table: RolloutTable) -> None:
        """Add the scores of the present level's prompts to the mean, and change the level if it says so.

        Raises:
            ConfigError: If ``score`` names no reward.
        """
        scores_R = self._scores(table)
        valid_R = table.valid_R & ~scores_R.isnan()
        group_R, scores_R = table.group_R[valid_R], scores_R[valid_R]
        if self.success is not None:
            scores_R = (scores_R >= self.success).to(torch.float64)
        means_G = Groups.of(group_R).mean(scores_R).tolist()
        for ordinal, mean in zip(torch.unique(group_R).tolist(), means_G, strict=True):
            if prompts[ordinal][0] == self._names[self.level]:
                self.recent.append(mean)
        self.recent = self.recent[-self.window :]
        if len(self.recent) == self.window:
            self._move(sum(self.recent) / self.window)

    def _move(self, mean: float) -> None:
        level = self.level
        if mean >= self.up:
            level = min(level + 1, len(self._names) - 1)
        elif self.down is not None and mean < self.down:
            level = max(level - 1, 0)
        if level != self.level:
            self.level, self.recent = level, []

    def _scores(self, table: RolloutTable) -> torch.Tensor:
        """[R] float64: what counts of each row; NaN where it abstains."""
        if self.score is None:
            return table.rewards_R
        if self.score not in table.components:
            raise ConfigError(
                "data.curriculum.score", self.score, "is no reward", near_matches(self.score, table.components)
            )
        return table.components[self.score]

    def _next(self, name: str) -> int:
        position = self._drawn_from.get(name, 0)
        self._drawn_from[name] = position + 1
        return self._passes[name].row(position)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "recent": list(self.recent),
            "drawn": self._drawn,
            "drawn_from": dict(self._drawn_from),
        }

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.level, self.recent = int(state["level"]), [float(each) for each in state["recent"]]
        self._drawn = int(state["drawn"])
        self._drawn_from = {name: int(count) for name, count in state["drawn_from"].items()}
