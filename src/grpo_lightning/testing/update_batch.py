"""An update made in code: what the checks of losses, KL estimators and corrections are tried on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import torch
from torch import Tensor

from grpo_lightning.corrections.base import CorrectionInputs
from grpo_lightning.functional.log_probs import FUNCTIONALS
from grpo_lightning.kl.base import KLInputs
from grpo_lightning.losses.base import LossInputs
from grpo_lightning.steps import UpdateSteps

LENGTHS = (3, 1, 5, 2, 1, 4, 2, 1)
GROUPS = (3, 3, 3, 8, 8, 11, 20, 20)
"""Four groups of uneven size, one of them of a single row; rows of a single step among them."""
ADVANTAGES = (1.0, -0.5, -0.5, 0.8, -0.8, 0.7, -1.2, 1.2)
EXTREMES = (-500.0, -20.0, 0.0, 20.0, 500.0)
"""Log-ratios that exponentials cannot hold, and some that they can."""


@dataclass(frozen=True)
class UpdateBatch:
    """Rows of an update in float64, in order of groups; every call that hands them on makes tensors of its own."""

    log_probs_S: Tensor
    old_log_probs_S: Tensor
    behaviour_log_probs_S: Tensor
    advantages_S: Tensor
    uniform_S: Tensor
    lengths_R: Tensor
    group_R: Tensor
    functionals: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def row_S(self) -> Tensor:
        """[S] int64: row of each step."""
        return torch.repeat_interleave(torch.arange(self.lengths_R.shape[0]), self.lengths_R)

    def steps_of(self, rows: Sequence[int]) -> Tensor:
        """int64: indices of the steps of ``rows``, rows in that order."""
        own = self.row_S
        return torch.cat([(own == row).nonzero().squeeze(1) for row in rows])

    def select(self, rows: Sequence[int]) -> UpdateBatch:
        """The rows ``rows``, in that order."""
        steps, index = self.steps_of(rows), torch.tensor(list(rows), dtype=torch.int64)
        changed: dict[str, Tensor] = {}
        for name in ("log_probs_S", "old_log_probs_S", "behaviour_log_probs_S", "advantages_S", "uniform_S"):
            changed[name] = getattr(self, name)[steps]
        functionals = {name: values[steps] for name, values in self.functionals.items()}
        return UpdateBatch(
            **changed, lengths_R=self.lengths_R[index], group_R=self.group_R[index], functionals=functionals
        )

    def on_policy(self) -> UpdateBatch:
        """The same rows, sampled by the policy as it is."""
        same = self.log_probs_S
        return replace(self, old_log_probs_S=same.clone(), behaviour_log_probs_S=same.clone())

    def with_advantages(self, values_R: Sequence[float]) -> UpdateBatch:
        """The same rows with these advantages, repeated over their steps."""
        return replace(self, advantages_S=torch.tensor(list(values_R), dtype=torch.float64)[self.row_S])

    def loss_inputs(
        self,
        dtype: torch.dtype = torch.float64,
        *,
        plan_S: Tensor | None = None,
        functionals: Collection[str] = FUNCTIONALS,
    ) -> LossInputs:
        """The rows as one micro-batch; log-probabilities and functionals are leaves with gradient."""
        first_S = torch.cat([torch.zeros(1, dtype=torch.int64), self.lengths_R.cumsum(0)[:-1]])
        return LossInputs(
            log_probs_S=_leaf(self.log_probs_S, dtype),
            old_log_probs_S=_copy(self.old_log_probs_S, dtype),
            behaviour_log_probs_S=_copy(self.behaviour_log_probs_S, dtype),
            advantages_S=_copy(self.advantages_S, dtype),
            row_S=self.row_S,
            lengths_R=self.lengths_R.clone(),
            group_R=self.group_R.clone(),
            functionals={name: _leaf(self.functionals[name], dtype) for name in functionals},
            plan_S=None if plan_S is None else plan_S.clone(),
            rewards_R=_copy(self.advantages_S[first_S].sign(), dtype),
            behaviour_version_R=torch.full_like(self.lengths_R, 5),
            old_version=6,
            version=7,
        )

    def correction_inputs(
        self, dtype: torch.dtype = torch.float64, *, functionals: Collection[str] = FUNCTIONALS
    ) -> CorrectionInputs:
        """The rows as a correction sees them."""
        return CorrectionInputs(
            _copy(self.old_log_probs_S, dtype),
            _copy(self.behaviour_log_probs_S, dtype),
            self.row_S,
            self.lengths_R.clone(),
            _copy(self.log_probs_S, dtype),
            _copy(self.advantages_S, dtype),
            {name: _copy(self.functionals[name], dtype) for name in functionals},
        )

    def kl_inputs(self, dtype: torch.dtype = torch.float64, *, exact: bool = True) -> KLInputs:
        """The steps as a KL estimator sees them; the policy that sampled plays the reference."""
        return KLInputs(
            _leaf(self.log_probs_S, dtype),
            _copy(self.behaviour_log_probs_S, dtype),
            _copy(self.old_log_probs_S, dtype),
            _leaf(self.functionals["exact_kl"], dtype) if exact else None,
        )

    def update_steps(self, functionals: Collection[str] = FUNCTIONALS) -> UpdateSteps:
        """The steps as a plan sees them."""
        return UpdateSteps(
            self.log_probs_S.clone(),
            self.old_log_probs_S.clone(),
            self.behaviour_log_probs_S.clone(),
            self.advantages_S.clone(),
            self.row_S,
            self.lengths_R.clone(),
            self.group_R.clone(),
            self.uniform_S.clone(),
            {name: self.functionals[name].clone() for name in functionals},
        )


def _copy(values: Tensor, dtype: torch.dtype) -> Tensor:
    return values.detach().clone().to(dtype)


def _leaf(values: Tensor, dtype: torch.dtype) -> Tensor:
    return _copy(values, dtype).requires_grad_()


def update_batch(spread: float = 0.3, *, per_step: bool = False) -> UpdateBatch:
    """Eight rows of four groups.

    Args:
        spread: Standard deviation of a step's log-ratio to the old policy, and of that to the policy that sampled.
        per_step: Give every step an advantage of its own.
    """
    generator = torch.Generator().manual_seed(20)
    steps = sum(LENGTHS)

    def normal() -> Tensor:
        return torch.randn(steps, generator=generator, dtype=torch.float64)

    def uniform() -> Tensor:
        return torch.rand(steps, generator=generator, dtype=torch.float64)

    log_probs_S = -0.05 - 3 * uniform()
    old_S = log_probs_S - spread * normal()
    behaviour_S = old_S - spread * normal()
    lengths = torch.tensor(LENGTHS)
    advantages_S = torch.repeat_interleave(torch.tensor(ADVANTAGES, dtype=torch.float64), lengths)
    if per_step:
        advantages_S = advantages_S * (0.5 + uniform())
    functionals = {name: 0.1 + uniform() for name in sorted(FUNCTIONALS)}
    uniform_S = uniform().clamp(1e-6, 1 - 1e-6)
    return UpdateBatch(
        log_probs_S, old_S, behaviour_S, advantages_S, uniform_S, lengths, torch.tensor(GROUPS), functionals
    )


def extreme_batch(*, bf16: bool = False) -> UpdateBatch:
    """Rows of one step and of three with every pair of extreme log-ratios, and advantages from -1e6 to 1e6.

    Args:
        bf16: Round log-probabilities to bfloat16.
    """
    sizes = (0.0, 1.0, -1.0, 1e-6, -1e-6, 1e6, -1e6)
    rows = list(product(EXTREMES, EXTREMES, sizes, (1, 3)))
    now: list[float] = []
    old: list[float] = []
    behaviour: list[float] = []
    advantages: list[float] = []
    for to_old, to_behaviour, advantage, length in rows:
        # All three shifted below 0, where log-probabilities are.
        values = torch.tensor([0.0, -to_old, -to_old - to_behaviour], dtype=torch.float64)
        shifted = values - values.max() - 1.0
        for kept, value in zip((now, old, behaviour), shifted.tolist(), strict=True):
            kept += [value] * length
        advantages += [advantage] * length
    steps = len(now)
    precision = torch.bfloat16 if bf16 else torch.float64
    now_S, old_S, behaviour_S = (torch.tensor(each, dtype=precision).double() for each in (now, old, behaviour))
    return UpdateBatch(
        now_S,
        old_S,
        behaviour_S,
        advantages_S=torch.tensor(advantages, dtype=torch.float64),
        uniform_S=(torch.arange(steps, dtype=torch.float64) + 0.5) / steps,
        lengths_R=torch.tensor([row[3] for row in rows]),
        group_R=torch.arange(len(rows)) // 14,
        functionals={name: torch.full((steps,), 0.5, dtype=torch.float64) for name in FUNCTIONALS},
    )
