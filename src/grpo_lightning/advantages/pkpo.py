"""Rewards as unbiased weights for the gradient of the expected best of k (PKPO)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable

BASELINES = ("none", "leave_one_out", "leave_one_out_minus_one")


class PKPO(Advantage):
    """PKPO, ``A_i = (1 / C(n, k)) sum_I (max_I r - max_{I without i} r)`` over the k-subsets ``I`` of the group with row i.

    ``n`` is the number of valid rows of the group. Summed over its rows, ``A_i`` times the gradient of row i's
    log-probability is an unbiased gradient of max@k, the expected best reward of ``k`` samples (pass@k for rewards of 0
    and 1). It is a sum over the group: an aggregation that divides by rows divides by ``n`` again, so each group counts the
    same whatever its size. In units of reward. By ``baseline``:

    - ``leave_one_out_minus_one``: as above, ``s_i - (k / n) rho_{k-1}(others)`` (eq. 33). Never negative. Adding a constant
      changes nothing; equal rewards give exactly 0. Needs ``k >= 2``.
    - ``leave_one_out``: ``s_i - k / (n - 1) rho_k(others)`` (eq. 29). Needs ``k + 1`` rows.
    - ``none``: ``s_i = (1 / C(n, k)) sum_I max_I r`` (eq. 19).

    ``rho_k`` is the mean, over k-subsets, of their best reward (eq. 12), of the group without row i for ``others``. The last
    two do not vanish where all rewards are equal, and are biased if that were made 0: they do not count as comparing. A
    group of fewer rows than the formula needs gets 0.

    Source: Walder and Karkhanis, arXiv 2505.15201. Each weight of a sorted reward is computed from whole numbers.

    Args:
        k: Samples of which the best counts, at least 1 (2 for the default baseline). The paper tries several.
        baseline: ``leave_one_out_minus_one`` (what the paper trains with), ``leave_one_out`` or ``none``.

    Example:
        >>> from grpo_lightning.advantages.pkpo import PKPO
        >>> from grpo_lightning.types import RolloutTable
        >>> PKPO(k=2)(RolloutTable.of([0.0, 3.0, 1.0], groups=[0, 0, 0])).tolist()
        [0.0, 1.6666666666666665, 0.3333333333333333]
    """

    name = "pkpo"
    under_scale = "equivariant"
    example: ClassVar[Mapping[str, Any]] = {"k": 2}
    differs: ClassVar[Mapping[str, str]] = {
        "MaxRL's code": "Rewards of 0 and 1 only: a right row has the share of (k - 1)-subsets of the others that are all "
        "wrong, a wrong one 0, and from each the mean of the others is taken off.",
    }

    def __init__(
        self,
        *,
        k: int = 4,
        baseline: Literal["none", "leave_one_out", "leave_one_out_minus_one"] = "leave_one_out_minus_one",
    ) -> None:
        require(baseline in BASELINES, "baseline", baseline, "is no baseline", "set one of " + ", ".join(BASELINES))
        require(isinstance(k, int), "k", k, "is no whole number", "set a whole number")
        require_range("k", k, low=2 if baseline == "leave_one_out_minus_one" else 1)
        self.k, self.baseline = k, baseline
        # By the instance: the two other baselines keep their value where all rewards are equal.
        self.compares = baseline == "leave_one_out_minus_one"
        self.under_shift = "invariant" if self.compares else None

    @property
    @override
    def smallest_group(self) -> int:
        return self.k + 1 if self.baseline == "leave_one_out" else self.k

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        values_R = torch.zeros_like(rewards_R)
        for rows in torch.split(groups.index_R.argsort(stable=True), groups.sizes_G.tolist()):
            if len(rows) < self.smallest_group:
                continue
            sorted_n, order = rewards_R[rows].sort(stable=True)
            weights_nn, rest = _weights(len(rows), self.k, self.baseline)
            # sum_j w_ij r_j from differences, so that a constant in all rewards costs no digits.
            values_R[rows[order]] = (weights_nn * (sorted_n - sorted_n[:, None])).sum(1) + rest * sorted_n
        return values_R

    @override
    def formula(self) -> Formula:
        k, size = self.k, "n" if self.baseline != "leave_one_out" else "n - 1"
        text = f"(1 / C(n, {k})) sum_{{I: |I| = {k}, i in I}} "
        latex = rf"\binom{{n}}{{{k}}}^{{-1}} \sum_{{I \ni i,\, |I| = {k}}} "
        symbols = {"n": "valid rows of the group", "I": f"subsets of {k} rows of the group", "C(a, b)": "a choose b"}
        if self.baseline == "leave_one_out_minus_one":
            text += "(max_{j in I} r_j - max_{j in I, j != i} r_j)"
            latex += r"\Big(\max_{j \in I} r_j - \max_{j \in I,\, j \ne i} r_j\Big)"
        else:
            text, latex = text + "max_{j in I} r_j", latex + r"\max_{j \in I} r_j"
        if self.baseline == "leave_one_out":
            text += f" - {k} / ({size}) rho_g\\i"
            latex += rf" - \frac{{{k}}}{{{size}}} \rho_{{g \setminus i}}"
            symbols["rho_g\\i"] = f"mean best reward of the subsets of {k} rows of the group without row i"
        return Formula(f"A_i = {text}", f"A_i = {latex}", symbols, ("Walder and Karkhanis, arXiv 2505.15201",))


@cache
def _weights(n: int, k: int, baseline: str) -> tuple[Tensor, float]:
    """[n, n]: ``w_ij`` of the rewards sorted ascending, and the sum of each of its rows, the same for all."""
    subsets = comb(n, k)
    rows = []
    for i in range(1, n + 1):
        row = [Fraction(0)] * n
        for j in range(1, n + 1):
            # Of the k-subsets with i: those in which j is the best.
            best = comb(j - 1, k - 1) if j == i else comb(j - 2, k - 2) if j > i and k > 1 else 0
            row[j - 1] = Fraction(best, subsets)
            if j == i or baseline == "none":
                continue
            place = j if j < i else j - 1
            of = k if baseline == "leave_one_out" else k - 1
            share = Fraction(comb(place - 1, of - 1), comb(n - 1, of))
            row[j - 1] -= share * (Fraction(k, n - 1) if baseline == "leave_one_out" else Fraction(k, n))
        rows.append(row)
    return torch.tensor([[float(each) for each in row] for row in rows], dtype=torch.float64), float(sum(rows[0]))
