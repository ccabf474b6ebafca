from __future__ import annotations

import math

import pytest
import torch

from grpo_lightning.kl.base import KLInputs
from grpo_lightning.kl.k3 import K3
from grpo_lightning.kl.k3_unbiased import UnbiasedK3
from helpers.five_words import LOGITS, OLD, REFERENCE, expected, forward_kl, reverse_kl


def test_by_hand() -> None:
    # ratio 1/2 to the old policy, d = log 2
    log_probs = torch.tensor([math.log(0.25)], dtype=torch.float64)
    old, reference = torch.tensor([math.log(0.5)]).double(), torch.tensor([math.log(0.125)]).double()
    value = UnbiasedK3()(KLInputs(log_probs, reference, old))
    assert value.item() == pytest.approx(0.5 * (0.5 - 1 + math.log(2)), rel=1e-6)


@pytest.mark.parametrize("sampled_from_old", [False, True])
def test_value_and_gradient_are_those_of_the_divergence_on_and_off_policy(sampled_from_old: bool) -> None:
    value, gradient = expected(UnbiasedK3(), sampled_from_old=sampled_from_old)
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, reverse_kl()[1])


def test_a_constant_ratio_would_give_the_forward_direction() -> None:
    logits = LOGITS.clone().requires_grad_()
    log_probs = logits.log_softmax(0)
    weighted = (log_probs - OLD).exp().detach() * K3()(KLInputs(log_probs, REFERENCE, OLD))
    gradient = torch.autograd.grad((OLD.exp() * weighted).sum(), logits)[0]
    torch.testing.assert_close(gradient, forward_kl()[1])
