from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.functional.log_probs import functionals_of
from grpo_lightning.kl.base import KLInputs
from grpo_lightning.kl.exact import ExactKL
from helpers.adversarial import formula_cases
from helpers.five_words import expected, reverse_kl


def test_value_and_gradient_are_those_of_the_divergence() -> None:
    value, gradient = expected(ExactKL())
    torch.testing.assert_close(value, reverse_kl()[0])
    torch.testing.assert_close(gradient, reverse_kl()[1])


def test_it_declares_what_it_needs_and_refuses_to_go_without() -> None:
    assert ExactKL.functionals == frozenset({"exact_kl"})
    with pytest.raises(ValueError, match="exact_kl"):
        ExactKL()(KLInputs(torch.zeros(1), torch.zeros(1), torch.zeros(1)))


def softmax(logits: list[float]) -> list[float]:
    largest = max(logits)
    total = math.fsum(math.exp(each - largest) for each in logits)
    return [math.exp(each - largest) / total for each in logits]


LOGIT = st.one_of(st.sampled_from([0.0, 1.0, -20.0, 20.0]), st.floats(-20, 20))
VOCABULARY = st.integers(1, 7).flatmap(lambda size: st.lists(st.tuples(LOGIT, LOGIT), min_size=size, max_size=size))


@formula_cases
@given(words=VOCABULARY)
def test_equals_its_formula(words: list[tuple[float, float]]) -> None:
    p, q = softmax([word[0] for word in words]), softmax([word[1] for word in words])
    log_ratio = [math.log(a) - math.log(b) for a, b in zip(p, q, strict=True)]
    value = math.fsum(a * b for a, b in zip(p, log_ratio, strict=True))
    slopes = [a * (b - value) for a, b in zip(p, log_ratio, strict=True)]  # by the logits: p_v (log p_v / q_v - KL)

    logits = torch.tensor([[word[0] for word in words]], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([[word[1] for word in words]], dtype=torch.float64).log_softmax(-1)
    chosen = torch.zeros(1, dtype=torch.int64)
    seen = functionals_of(logits.log_softmax(-1), chosen, ExactKL.functionals, reference)
    found = ExactKL()(KLInputs(seen["log_prob"], reference[:, 0], seen["log_prob"].detach(), seen["exact_kl"]))
    gradient = torch.autograd.grad(found.sum(), logits)[0][0]
    # Log-probabilities are rounded at the size of the logits, up to 40, whatever the size of their difference.
    assert found.item() == pytest.approx(value, rel=1e-10, abs=1e-13)
    assert gradient.tolist() == pytest.approx(slopes, rel=1e-10, abs=1e-13)


def test_its_equation() -> None:
    assert ExactKL().formula().text == "k_it = sum_v pi_theta(v) (log pi_theta(v) - log pi_ref(v))"
