"""Rewards minus a running mean for each role (RAE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable

Baselines = dict[tuple[int, ...], float]


class RoleConditionedAdvantage(Advantage):
    """SPIRAL's advantage, ``b_q <- alpha b_q + (1 - alpha) r_i``, then ``A_i = r_i - b_q`` with the ``b_q`` just updated.

    ``q`` is the role of the row: the combination of its values in ``columns`` of the data set (game and player, say).
    Each role has a baseline of its own that begins at 0 and is carried from rollout to rollout and through checkpoints.
    Rows are taken one after the other, in ascending order of group ordinal and member; rows that abstain or have no step
    are passed over. Because the row's own reward is in the baseline by then, ``A_i = alpha (r_i - b_q)`` with the ``b_q``
    from before: ``baseline="previous"`` leaves that factor out and is otherwise the same.

    In units of reward; nothing is normalised. No statistic of a group enters: groups of one are allowed, and a group whose
    rewards are all equal keeps its distance from ``b_q``.

    Source: Liu et al. (SPIRAL), arXiv 2506.24119, equation 2 and algorithm 1; ``alpha = 0.95`` is from the authors' code,
    which subtracts the baseline from before the update.

    Args:
        columns: Columns of the data set that tell roles apart; none: one baseline for all rows.
        alpha: What a baseline keeps of itself at each row, from 0 to 1, 1 excluded; and 0 where the
            baseline is ``updated``, since rows would be compared with themselves.
        baseline: ``updated`` (the paper) or ``previous`` (its code).

    Example:
        >>> from grpo_lightning.advantages.rae import RoleConditionedAdvantage
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([1.0, 1.0], groups=[0, 0])
        >>> RoleConditionedAdvantage(alpha=0.5)(table).tolist()  # baseline 0.5 after the first row, 0.75 after the second
        [0.5, 0.25]
    """

    name = "rae"
    batch_statistics = True
    compares = False
    differs: ClassVar[Mapping[str, str]] = {
        "SPIRAL (released code)": "subtracts the baseline from before the update: 1 / alpha times as much.",
        "prime-rl": "subtracts the baseline from before the update: 1 / alpha times as much; baselines are not in the "
        "checkpoint.",
    }

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        alpha: float = 0.95,
        baseline: Literal["updated", "previous"] = "updated",
    ) -> None:
        require(not isinstance(columns, str), "columns", columns, "is no list", f"write [{columns}]")
        require(len(set(columns)) == len(columns), "columns", columns, "names a column twice", "name each once")
        require_range("alpha", alpha, low=0.0, high=1.0, low_open=baseline == "updated", high_open=True)
        choices = ("updated", "previous")
        require(baseline in choices, "baseline", baseline, "is no choice", "set 'updated' or 'previous'")
        self.columns, self.alpha, self.baseline = tuple(columns), alpha, baseline
        self._baselines: Baselines = {}

    @override
    def formula(self) -> Formula:
        keep, add = number(self.alpha), number(1 - self.alpha)
        update = f"b_q <- {keep} b_q + {add} r_i"
        latex_update = rf"b_q \leftarrow {latex_number(self.alpha)}\, b_q + {latex_number(1 - self.alpha)}\, r_i"
        after = self.baseline == "updated"
        return Formula(
            text=f"A_i = r_i - b_q, {'after' if after else 'before'} {update}",
            latex=rf"A_i = r_i - b_q \quad \text{{{'after' if after else 'before'}}} \quad {latex_update}",
            symbols={
                "b_q": "running mean of the role's rewards, 0 at first; rows in order of group and member",
                "q": "role of the row: " + (", ".join(self.columns) if self.columns else "one for all"),
            },
            sources=("Liu et al., SPIRAL, arXiv 2506.24119, equation 2",),
        )

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return self._walk(rewards_R, table, dict(self._baselines))

    @override
    def observe(self, table: RolloutTable) -> None:
        valid = table.select(table.valid_R.nonzero().squeeze(1))
        self._walk(valid.rewards_R.to(torch.float64), valid, self._baselines)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"baselines": {",".join(map(str, role)): value for role, value in sorted(self._baselines.items())}}

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._baselines = {
            tuple(int(part) for part in role.split(",") if part): float(value)
            for role, value in state["baselines"].items()
        }

    def _walk(self, rewards_R: Tensor, table: RolloutTable, baselines: Baselines) -> Tensor:
        """[R]: advantages of valid rows, updating ``baselines`` on the way."""
        missing = [column for column in self.columns if column not in table.labels]
        if missing:
            raise ValueError(f"advantage 'rae' tells roles apart by {missing}, which the table has no labels of")
        roles = list(zip(*(table.labels[column].tolist() for column in self.columns), strict=True))
        rewards = rewards_R.tolist()
        places = list(zip(table.group_R.tolist(), table.member_R.tolist(), strict=True))
        factor = self.alpha if self.baseline == "updated" else 1.0
        advantages = [0.0] * len(rewards)
        for row in sorted(range(len(rewards)), key=places.__getitem__):
            role = roles[row] if roles else ()
            before = baselines.get(role, 0.0)
            # r - (alpha b + (1 - alpha) r) = alpha (r - b), which is exactly 0 where they are equal.
            advantages[row] = factor * (rewards[row] - before)
            baselines[role] = before + (1 - self.alpha) * (rewards[row] - before)
        return torch.tensor(advantages, dtype=torch.float64)
