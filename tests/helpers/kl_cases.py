"""KL estimators against their formula, one step at a time with fifty digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, getcontext

import torch

from grpo_lightning.kl.base import KLEstimator, KLInputs
from helpers.adversarial import Row, inputs_of

getcontext().prec = 50

Exact = Callable[[Decimal, Decimal], tuple[Decimal, Decimal]]
"""From ``d`` and ``log rho`` of a step to the value and its derivative by ``log pi_theta``."""


def expect_kl(estimator: KLEstimator, rows: Sequence[Row], exact: Exact, *, absolute: float = 0.0) -> None:
    """Hold value and gradient of every step against ``exact``; the sampler's log-probabilities play the reference.

    Each is compared relative to its own size (1e-10). The value may besides be wrong by ``absolute`` times ``d``, times
    the ratio of the policies if that is above 1.
    """
    inputs = inputs_of(rows)
    reference_S = inputs.behaviour_log_probs_S
    values = estimator(KLInputs(inputs.log_probs_S, reference_S, inputs.old_log_probs_S))
    gradient = torch.autograd.grad(values.sum(), inputs.log_probs_S)[0]
    now, then = inputs.log_probs_S.tolist(), inputs.old_log_probs_S.tolist()
    for step, far in enumerate(reference_S.tolist()):
        # The difference as float64 has it: what a rounding of d does is no matter of the estimator.
        d, log_ratio = Decimal(now[step] - far), Decimal(now[step] - then[step])
        value, slope = map(float, exact(d, log_ratio))
        slack = absolute * abs(float(d)) * max(1.0, float(log_ratio.exp()))
        where = f"at d = {d}, log rho = {log_ratio}"
        assert abs(values[step].item() - value) <= 1e-10 * abs(value) + slack, f"{values[step]}, not {value} {where}"
        assert abs(gradient[step].item() - slope) <= 1e-10 * abs(slope), (
            f"gradient {gradient[step]}, not {slope} {where}"
        )
