"""Rows, or steps, that sampler and trainer disagree on are left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.log_ratio import log_kappa, to_steps
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number

_BANDS = {"mean": (0.999, 1.001), "sum": (0.5, 2.0)}
_LIMITS = {("k3", "mean"): 0.01}
_TERMS = {"k1": "log kappa_it", "k2": "(log kappa_it)^2 / 2", "k3": "kappa_it - 1 - log kappa_it"}
_LATEX_TERMS = {
    "k1": r"\log \kappa_{i,t}",
    "k2": r"\tfrac12 (\log \kappa_{i,t})^2",
    "k3": r"(\kappa_{i,t} - 1 - \log \kappa_{i,t})",
}
_OVER = {"step": "", "sum": "sum_t ", "mean": "(1/l_i) sum_t ", "max": "max_t "}
_LATEX_OVER = {"step": "", "sum": r"\sum_t ", "mean": r"\frac{1}{l_i} \sum_t ", "max": r"\max_t "}


class SequenceRejection(Correction):
    """``1`` if a statistic of the row's ``log kappa`` is within bounds, else ``0``, for all its steps; ``kappa = pi_old / mu``.

    ``mu`` is the policy that sampled. The statistic is the sum, mean or maximum over the row's steps of

    - ``k1 = log kappa``, kept where ``low <= exp(statistic) <= high``: the mean is the geometric mean of the ratios, the
      sum their product;
    - ``k2 = (log kappa)^2 / 2`` or ``k3 = kappa - 1 - log kappa``, kept where ``statistic <= limit``.

    With ``over="step"`` each step is judged by its own value. Weights are 0 or 1, normalised by nothing; several rules
    at once are a ``product`` of corrections. With ``denominator="remaining"`` the aggregation counts only the steps that
    are left; with ``original`` a step left out counts as a term of 0. ``log kappa`` beyond +-700 counts as that in ``k3``.

    Source: Liu, Li et al., richardli.xyz/rl-collapse, and Li et al., arXiv 2512.23075, for rows; verl's rollout correction
    for the family and for its default bounds.

    Args:
        statistic: ``k1``, ``k2`` or ``k3``.
        over: ``mean``, ``sum``, ``max`` (not with ``k1``, which has a sign), or ``step``.
        low: Smallest ratio for ``k1``, above 0 and at most 1. Default 0.999 for the mean, 0.5 for the sum.
        high: Largest ratio for ``k1``, at least 1. Default 1.001 for the mean, 2 for the sum.
        limit: Largest statistic for ``k2`` and ``k3``, above 0, in nats. Default 0.01 for the mean of ``k3``.
        denominator: What the aggregation counts, ``original`` or ``remaining``.

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections.base import CorrectionInputs
        >>> old, mu = torch.tensor([0.2, 0.4, 0.1]).log(), torch.tensor([0.4, 0.2, 0.2]).log()
        >>> inputs = CorrectionInputs(old, mu, row_S=torch.tensor([0, 0, 1]), lengths_R=torch.tensor([2, 1]))
        >>> SequenceRejection()(inputs).tolist()
        [1.0, 1.0, 0.0]
    """

    name = "sequence_rejection"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "shrinks the mask, so the count is that of denominator=remaining; its k1 is log(mu / pi_old), so its bounds "
        "lower_upper are low=1/upper, high=1/lower here; clamps log kappa of a step to +-20 first",
        "OpenRLHF": "seq-mask-tis keeps rows by the geometric mean in [0.5, 5] and multiplies by the steps' own ratios, not "
        "capped; the count stays the original one",
        "open-instruct": "with rho_mask_sequence_level the weight is the geometric mean itself, not 1",
    }

    def __init__(
        self,
        *,
        statistic: Literal["k1", "k2", "k3"] = "k1",
        over: Literal["step", "sum", "mean", "max"] = "mean",
        low: float | None = None,
        high: float | None = None,
        limit: float | None = None,
        denominator: Literal["original", "remaining"] = "original",
    ) -> None:
        require(statistic in _TERMS, "statistic", statistic, "is no statistic", "set 'k1', 'k2' or 'k3'")
        require(over in _OVER, "over", over, "is no way to sum up a row", "set 'mean', 'sum', 'max' or 'step'")
        counts = ("original", "remaining")
        require(denominator in counts, "denominator", denominator, "is no count", "set 'original' or 'remaining'")
        self.statistic, self.over, self.denominator = statistic, over, denominator
        self.level = "step" if over == "step" else "sequence"
        self.whole_update = denominator == "remaining"
        self.low: float | None = None
        self.high: float | None = None
        self.limit: float | None = None
        if statistic == "k1":
            require(over != "max", "over", over, "has no meaning for k1, which has a sign", "set statistic to k2 or k3")
            require(limit is None, "limit", limit, "is for k2 and k3", "set low and high")
            self._take_band(low, high)
        else:
            require(low is None, "low", low, "is for k1", "set limit")
            require(high is None, "high", high, "is for k1", "set limit")
            self._take_limit(limit)

    def _take_band(self, low: float | None, high: float | None) -> None:
        band = _BANDS.get(self.over)
        if band is not None:
            low, high = band[0] if low is None else low, band[1] if high is None else high
        require(low is not None, "low", low, f"has no default for k1 over {self.over}", "set the smallest ratio kept")
        require(high is not None, "high", high, f"has no default for k1 over {self.over}", "set the largest ratio kept")
        require_range("low", low or 0.0, low=0.0, high=1.0, low_open=True)
        require_range("high", high or 0.0, low=1.0, high=float("inf"), high_open=True)
        self.low, self.high = low, high

    def _take_limit(self, limit: float | None) -> None:
        limit = _LIMITS.get((self.statistic, self.over)) if limit is None else limit
        name = f"{self.statistic} over {self.over}"
        require(limit is not None, "limit", limit, f"has no default for {name}", "set the largest value kept")
        require_range("limit", limit or 0.0, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.limit = limit

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights 0 or 1, without gradient; normalised by nothing."""
        value = self._over_rows(self._terms(log_kappa(inputs)), inputs)
        if self.low is not None and self.high is not None:
            kept = (value >= math.log(self.low)) & (value <= math.log(self.high))
        else:
            kept = value <= (self.limit or 0.0)
        return to_steps(kept, inputs, self.level)

    def _terms(self, log_kappa_S: Tensor) -> Tensor:
        if self.statistic == "k1":
            return log_kappa_S
        if self.statistic == "k2":
            return 0.5 * log_kappa_S**2
        bounded_S = log_kappa_S.clamp(-700.0, 700.0)
        return torch.expm1(bounded_S) - bounded_S

    def _over_rows(self, values_S: Tensor, inputs: CorrectionInputs) -> Tensor:
        if self.over == "step":
            return values_S
        if self.over == "sum":
            return inputs.sum_rows(values_S)
        if self.over == "mean":
            return inputs.mean_rows(values_S)
        lowest_R = values_S.new_full((inputs.lengths_R.shape[0],), -torch.inf)
        return lowest_R.scatter_reduce(0, inputs.row_S, values_S, "amax")

    @override
    def formula(self) -> Formula:
        text, latex = _OVER[self.over] + _TERMS[self.statistic], _LATEX_OVER[self.over] + _LATEX_TERMS[self.statistic]
        if self.low is not None and self.high is not None:
            text = f"{number(self.low)} <= exp({text}) <= {number(self.high)}"
            latex = rf"{latex_number(self.low)} \le \exp({latex}) \le {latex_number(self.high)}"
        else:
            text = f"{text} <= {number(self.limit or 0.0)}"
            latex = rf"{latex} \le {latex_number(self.limit or 0.0)}"
        symbols = {
            "kappa": "pi_old / mu, constant",
            "mu": "the policy that sampled",
            "l_i": "trainable steps of the row",
        }
        sources = ("Liu, Li et al., richardli.xyz/rl-collapse", "Li et al., arXiv 2512.23075")
        return Formula(f"c_it = 1[{text}]", rf"c_{{i,t}} = \mathbb{{1}}[{latex}]", symbols, sources)
