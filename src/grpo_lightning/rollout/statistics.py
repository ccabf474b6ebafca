"""Sums over the micro-batches of an update, reduced over ranks once."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.rollout import world

_NEGATED = "negated:"


class UpdateStatistics:
    """Totals, means and extremes of an update's steps. All stay on the device, unread, until :meth:`reduce`."""

    def __init__(self) -> None:
        self._totals: dict[str, Tensor] = {}
        self._means: dict[str, Tensor] = {}
        self._largest: dict[str, Tensor] = {}
        self.rows = self.steps = self.micro_batches = 0

    def count(self, rows: int, steps: int) -> None:
        """One more micro-batch has been run."""
        self.rows, self.steps, self.micro_batches = self.rows + rows, self.steps + steps, self.micro_batches + 1

    def total(self, name: str, value: Tensor) -> None:
        """Add ``value`` to the total ``name``."""
        _add(self._totals, name, value.detach().double())

    def mean(self, name: str, values_S: Tensor) -> None:
        """Steps whose mean over all steps run in the update is reported as ``name``."""
        _add(self._means, name, values_S.detach().double().sum())

    def largest(self, name: str, values_S: Tensor) -> None:
        """Steps whose largest value is reported as ``name``."""
        value = values_S.detach().double().max()
        self._largest[name] = torch.maximum(self._largest[name], value) if name in self._largest else value

    def smallest(self, name: str, values_S: Tensor) -> None:
        """Steps whose smallest value is reported as ``name``."""
        self.largest(_NEGATED + name, -values_S)

    def reduce(self) -> dict[str, float]:
        """Reduce over ranks in one gathering of numbers.

        Returns:
            Totals summed over ranks; means divided by the steps run on all ranks; extremes; and what was run:
            ``perf/rows_run``, ``perf/steps_run`` (sums) and ``perf/micro_batches`` (of the rank with most).
        """
        own = [
            {name: float(value) for name, value in part.items()} for part in (self._totals, self._means, self._largest)
        ]
        ranks = world.gather((*own, self.rows, self.steps, self.micro_batches))
        steps = sum(each[4] for each in ranks)
        result: dict[str, float] = {}
        for totals, means, largest, *_ in ranks:
            for name, value in totals.items():
                result[name] = result.get(name, 0.0) + value
            for name, value in means.items():
                result[name] = result.get(name, 0.0) + value / steps
            for name, value in largest.items():
                result[name] = max(result.get(name, value), value)
        for name in [name for name in result if name.startswith(_NEGATED)]:
            result[name.removeprefix(_NEGATED)] = -result.pop(name)
        result["perf/rows_run"] = float(sum(each[3] for each in ranks))
        result["perf/steps_run"] = float(steps)
        result["perf/micro_batches"] = float(max(each[5] for each in ranks))
        return result


def _add(sums: dict[str, Tensor], name: str, value: Tensor) -> None:
    sums[name] = sums[name] + value if name in sums else value
