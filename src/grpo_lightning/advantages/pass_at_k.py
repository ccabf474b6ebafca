"""Right and wrong answers by their part in pass@k, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import comb, isfinite, sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import RewardError, require, require_range
from grpo_lightning.formula import Formula, number
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class PassAtK(Advantage):
    """Pass@k training, ``A_right = (1 - R) / s`` and ``A_wrong = (1 - R - C(N - 1, k - 1) / C(G - 1, k - 1)) / s``.

    ``G`` valid rows of the group of which ``N`` are wrong, ``R = 1 - C(N, k) / C(G, k)`` the share of its k-subsets that
    hold a right one, ``s = sqrt(R (1 - R))``. A row's advantage is the mean, over all k-subsets that it is in, of the
    subset's 0 or 1 in standard deviations from ``R``. With odds ``h = (1 - R) / R`` it is ``sqrt(h)`` for right rows and
    ``-(G - N) / N sqrt(h)`` for wrong ones, and so computed; a group's advantages add up to 0. All get 0 where ``s = 0``:
    no right row, or fewer than ``k`` wrong ones. So does a group of fewer than ``k`` valid rows.

    Source: Chen et al., arXiv 2508.10751, analytical derivation. Their code adds 1e-6 to ``s``.

    Args:
        k: Answers of which one must be right, at least 1 and at most ``group_size``. The paper has no one value.
        correct: Reward from which on an answer is right. Without it every reward must be 0 or 1.

    Raises:
        RewardError: When called, for a reward that is neither 0 nor 1 and no ``correct``, naming the row.

    Example:
        >>> from grpo_lightning.advantages.pass_at_k import PassAtK
        >>> from grpo_lightning.types import RolloutTable
        >>> PassAtK(k=2)(RolloutTable.of([1.0, 0.0, 0.0, 0.0], groups=[0, 0, 0, 0])).tolist()
        [1.0, -0.3333333333333333, -0.3333333333333333, -0.3333333333333333]
    """

    name = "pass_at_k"
    example: ClassVar[Mapping[str, Any]] = {"k": 2}
    differs: ClassVar[Mapping[str, str]] = {
        "Chen et al.'s code": "Adds 1e-6 to s; rewards other than 0 and 1 pass through as they are.",
    }

    def __init__(self, *, k: int = 4, correct: float | None = None) -> None:
        require_range("k", k, low=1)
        require(isinstance(k, int), "k", k, "is no whole number", "set a whole number")
        require(
            correct is None or isfinite(correct), "correct", correct, "is no number", "set a reward, or leave it out"
        )
        self.k, self.correct = k, correct
        self.takes_penalty = correct is not None
        self.takes_rewards = "binary" if correct is None else "any"

    @property
    @override
    def smallest_group(self) -> int:
        return max(2, self.k + 1)

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        right_R = self._right(rewards_R, table)
        wrong_G = groups.sum((~right_R).to(torch.int64))
        counts = list(zip(groups.sizes_G.tolist(), wrong_G.tolist(), strict=True))
        values_G2 = torch.tensor([_advantages(size, wrong, self.k) for size, wrong in counts], dtype=torch.float64)
        return values_G2[groups.index_R, right_R.to(torch.int64)]

    def _right(self, rewards_R: Tensor, table: RolloutTable) -> Tensor:
        if self.correct is not None:
            return rewards_R >= self.correct
        other = ((rewards_R != 0) & (rewards_R != 1)).nonzero().squeeze(1)
        if other.numel() > 0:
            row = int(other[0])
            raise RewardError(
                f"advantage 'pass_at_k' takes rewards of 0 and 1, and member {int(table.member_R[row])} of group "
                f"{int(table.group_R[row])} has {float(rewards_R[row]):g}; set correct to the reward from which on an answer "
                "is right (model.advantage.correct)"
            )
        return rewards_R == 1

    @override
    def formula(self) -> Formula:
        k = self.k
        if self.correct is None:
            right, latex_right = "r_i = 1", "r_i = 1"
        else:
            right, latex_right = f"r_i >= {number(self.correct)}", rf"r_i \ge {number(self.correct)}"
        return Formula(
            text=f"A_i = (1 - R) / s if {right}, else (1 - R - C(N - 1, {k - 1}) / C(G - 1, {k - 1})) / s, "
            f"R = 1 - C(N, {k}) / C(G, {k}), s = sqrt(R (1 - R))",
            latex=rf"A_i = \frac{{1}}{{\sigma}} \begin{{cases}} 1 - \bar R & {latex_right} \\ 1 - \bar R - "
            rf"\binom{{N-1}}{{{k - 1}}} / \binom{{G-1}}{{{k - 1}}} & \text{{else}} \end{{cases}},\quad "
            rf"\bar R = 1 - \binom{{N}}{{{k}}} / \binom{{G}}{{{k}}},\quad \sigma = \sqrt{{\bar R (1 - \bar R)}}",
            symbols={"G": "valid rows of the group", "N": "wrong ones among them", "C(a, b)": "a choose b"},
            sources=("Chen et al., arXiv 2508.10751",),
        )


@cache
def _advantages(size: int, wrong: int, k: int) -> tuple[float, float]:
    """Of a wrong and of a right row."""
    misses, subsets = comb(wrong, k), comb(size, k)
    if misses in (0, subsets):
        return 0.0, 0.0
    # From whole numbers, so that nothing is lost where R is close to 0 or 1.
    right = sqrt(misses / (subsets - misses))
    return -right * (size - wrong) / wrong, right
