"""Values and gradients of KL estimators on a vocabulary of five words, by enumeration.

One step with a fixed prefix: the policy is ``softmax(logits)``, and the expectation over what it samples is a sum over
five words. The exact divergences are written here from their definition and differentiated by autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.kl.base import KLEstimator, KLInputs

LOGITS = torch.tensor([0.3, -1.2, 0.8, 2.0, -0.4], dtype=torch.float64)
REFERENCE = torch.tensor([1.0, 0.1, -0.5, 0.7, -2.0], dtype=torch.float64).log_softmax(0)
OLD = torch.tensor([0.1, -0.7, 1.1, 1.5, 0.0], dtype=torch.float64).log_softmax(0)
"""A policy from before some updates, for estimators with a ratio."""
ZERO = torch.zeros(5, dtype=torch.float64)


def expected(estimator: KLEstimator, *, sampled_from_old: bool = False) -> tuple[Tensor, Tensor]:
    """Expectation of the estimator's value, and [5] of its gradient with the samples held fixed."""
    logits = LOGITS.clone().requires_grad_()
    log_probs = logits.log_softmax(0)
    old = OLD if sampled_from_old else log_probs.detach()
    exact = (log_probs.exp() * (log_probs - REFERENCE)).sum().expand(5)
    values = estimator(KLInputs(log_probs, REFERENCE, old, exact))
    # Probabilities of what is sampled carry no gradient: a loss does not see them.
    mean = (old.exp() * values).sum()
    return mean.detach(), torch.autograd.grad(mean, logits)[0]


def reverse_kl() -> tuple[Tensor, Tensor]:
    """``KL(policy || reference)`` and its gradient."""
    logits = LOGITS.clone().requires_grad_()
    log_probs = logits.log_softmax(0)
    value = (log_probs.exp() * (log_probs - REFERENCE)).sum()
    return value.detach(), torch.autograd.grad(value, logits)[0]


def forward_kl() -> tuple[Tensor, Tensor]:
    """``KL(reference || policy)`` and its gradient."""
    logits = LOGITS.clone().requires_grad_()
    value = (REFERENCE.exp() * (REFERENCE - logits.log_softmax(0))).sum()
    return value.detach(), torch.autograd.grad(value, logits)[0]


def total_variation() -> tuple[Tensor, Tensor]:
    """``1/2 sum_v |policy - reference|`` and its gradient."""
    logits = LOGITS.clone().requires_grad_()
    value = (logits.softmax(0) - REFERENCE.exp()).abs().sum() / 2
    return value.detach(), torch.autograd.grad(value, logits)[0]


def at(estimator: KLEstimator, difference: float, dtype: torch.dtype = torch.float64) -> tuple[float, float]:
    """Value and derivative of an estimator where ``log pi_theta - log pi_ref`` is ``difference``."""
    log_probs = torch.tensor([difference], dtype=dtype, requires_grad=True)
    zero = torch.zeros(1, dtype=dtype)
    value = estimator(KLInputs(log_probs, zero, log_probs.detach()))
    return value.item(), torch.autograd.grad(value, log_probs)[0].item()
