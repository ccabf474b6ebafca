"""What each estimator does to rows of three steps, in the loss and in the reward, by enumeration.

An autoregressive policy over five words whose logits depend on the whole prefix; all 125 rows are enumerated, so every
expectation is exact. ``KL`` of whole rows and of single steps are written from their definitions and differentiated by
autograd; prefixes held fixed means that what draws them carries no gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grpo_lightning.kl import K1, K2, K3, AbsoluteKL, ExactKL, KLEstimator, KLInputs, UnbiasedK3

WORDS, STEPS = 5, 3
PREFIXES = [prefix for length in range(STEPS) for prefix in itertools.product(range(WORDS), repeat=length)]
ROWS = list(itertools.product(range(WORDS), repeat=STEPS))
PREFIX = torch.tensor([[PREFIXES.index(row[:t]) for t in range(STEPS)] for row in ROWS])
"""[125, 3]: which prefix each step of each row sees."""
WORD = torch.tensor(ROWS)


def logits(seed: int) -> Tensor:
    """[31, 5]: random logits after every prefix."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(PREFIXES), WORDS, generator=generator, dtype=torch.float64)


REFERENCE = logits(1).log_softmax(-1)
OLD = (logits(2) + 0.5 * logits(3)).log_softmax(-1)


def of_rows(log_probs: Tensor) -> Tensor:
    """[125, 3]: log-probability of each step of each row."""
    return log_probs[PREFIX, WORD]


def gradient(value: Tensor, by: Tensor) -> Tensor:
    return torch.autograd.grad(value, by, allow_unused=True, materialize_grads=True)[0]


def of(function: Callable[[Tensor], Tensor]) -> Tensor:
    """[31, 5]: gradient of a scalar of the policy's log-probabilities [31, 5]."""
    own = logits(2).requires_grad_()
    return gradient(function(own.log_softmax(-1)), own)


def values(estimator: KLEstimator, log_probs: Tensor, old: Tensor) -> Tensor:
    """[125, 3]: the estimator at each step of each row."""
    exact = (log_probs.exp() * (log_probs - REFERENCE)).sum(-1)[PREFIX]
    flat = KLInputs(of_rows(log_probs).flatten(), of_rows(REFERENCE).flatten(), of_rows(old).flatten(), exact.flatten())
    return estimator(flat).reshape(-1, STEPS)


def probabilities(log_probs: Tensor) -> Tensor:
    """[125]: of each row."""
    return of_rows(log_probs).sum(-1).exp()


def row_kl(log_probs: Tensor) -> Tensor:
    """``KL`` of whole rows: sum over rows of p (log p - log q)."""
    return (probabilities(log_probs) * (of_rows(log_probs) - of_rows(REFERENCE)).sum(-1)).sum()


def stepwise(divergence: Callable[[Tensor], Tensor], sampler: Tensor | None = None) -> Tensor:
    """Gradient of the sum over steps of the divergence [31] after the prefix, prefixes drawn by ``sampler`` held fixed."""

    def summed(log_probs: Tensor) -> Tensor:
        drawn = probabilities(log_probs if sampler is None else sampler).detach()
        return (drawn[:, None] * divergence(log_probs)[PREFIX]).sum()

    return of(summed)


def reverse(log_probs: Tensor) -> Tensor:
    """[31]: ``KL(pi || ref)`` after each prefix."""
    return (log_probs.exp() * (log_probs - REFERENCE)).sum(-1)


def forward(log_probs: Tensor) -> Tensor:
    """[31]: ``KL(ref || pi)`` after each prefix."""
    return (REFERENCE.exp() * (REFERENCE - log_probs)).sum(-1)


def total_variation(log_probs: Tensor) -> Tensor:
    """[31]: after each prefix."""
    return (log_probs.exp() - REFERENCE.exp()).abs().sum(-1) / 2


def expected_value(estimator: KLEstimator) -> Tensor:
    """Sum over a row's steps, in expectation under the policy."""
    own = logits(2).log_softmax(-1)
    return (probabilities(own) * values(estimator, own, own).sum(-1)).sum()


def in_loss(estimator: KLEstimator, sampler: Tensor | None = None) -> Tensor:
    """Expected gradient of the sum over a row's steps, with the rows held fixed."""

    def summed(log_probs: Tensor) -> Tensor:
        old = (log_probs if sampler is None else sampler).detach()
        return (probabilities(old) * values(estimator, log_probs, old).sum(-1)).sum()

    return of(summed)


def in_reward(estimator: KLEstimator, *, to_go: bool) -> Tensor:
    """Expected score-function gradient: each step's score times the penalty of the row, or of its steps from there on."""

    def summed(log_probs: Tensor) -> Tensor:
        fixed = log_probs.detach()
        penalties = values(estimator, fixed, fixed)
        weights = penalties.flip(-1).cumsum(-1).flip(-1) if to_go else penalties.sum(-1, keepdim=True)
        return (probabilities(fixed)[:, None] * weights * of_rows(log_probs)).sum()

    return of(summed)


def own_expectation(estimator: KLEstimator) -> Tensor:
    """Gradient of the expectation itself, through the rows that are drawn and through the values."""
    return of(
        lambda log_probs: (probabilities(log_probs) * values(estimator, log_probs, log_probs.detach()).sum(-1)).sum()
    )


def equal(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def different(found: Tensor, wanted: Tensor) -> None:
    assert (found - wanted).norm() > 0.05 * wanted.norm(), "not told apart by this policy"


ROW_KL, STEP_KL = of(row_kl), stepwise(reverse)
EVERY = [K1(), K2(), K3(), AbsoluteKL(), ExactKL(), UnbiasedK3()]
every = pytest.mark.parametrize("estimator", EVERY, ids=lambda each: each.name)


def test_rows_add_up_to_one_and_the_two_gradients_differ() -> None:
    assert probabilities(logits(2).log_softmax(-1)).sum().item() == pytest.approx(1.0, rel=1e-12)
    different(STEP_KL, ROW_KL)
    different(stepwise(forward), STEP_KL)


@pytest.mark.parametrize("estimator", [K1(), K3(), ExactKL(), UnbiasedK3()], ids=lambda each: each.name)
def test_summed_values_that_are_unbiased_for_the_divergence_of_rows(estimator: KLEstimator) -> None:
    equal(expected_value(estimator), row_kl(logits(2).log_softmax(-1)))


@pytest.mark.parametrize("estimator", [K2(), AbsoluteKL()], ids=lambda each: each.name)
def test_summed_values_that_are_not(estimator: KLEstimator) -> None:
    different(expected_value(estimator), row_kl(logits(2).log_softmax(-1)))


def test_k1_in_the_loss_pulls_nowhere() -> None:
    equal(in_loss(K1()), torch.zeros(len(PREFIXES), WORDS, dtype=torch.float64))


@pytest.mark.parametrize("estimator", [K2(), ExactKL(), UnbiasedK3()], ids=lambda each: each.name)
def test_in_the_loss_the_divergence_of_steps_with_prefixes_held_fixed(estimator: KLEstimator) -> None:
    equal(in_loss(estimator), STEP_KL)
    different(in_loss(estimator), ROW_KL)


def test_k3_in_the_loss_the_forward_divergence_of_steps() -> None:
    equal(in_loss(K3()), stepwise(forward))
    different(in_loss(K3()), STEP_KL)
    different(in_loss(K3()), ROW_KL)


def test_abs_in_the_loss_twice_the_total_variation_of_steps() -> None:
    equal(in_loss(AbsoluteKL()), 2 * stepwise(total_variation))


def test_unbiased_k3_in_the_loss_under_an_older_policy_that_draws_the_prefixes() -> None:
    equal(in_loss(UnbiasedK3(), OLD), stepwise(reverse, OLD))
    different(in_loss(UnbiasedK3(), OLD), STEP_KL)
    own = logits(2).log_softmax(-1)
    drawn = (probabilities(OLD) * values(UnbiasedK3(), own, OLD).sum(-1)).sum()
    equal(drawn, (probabilities(OLD)[:, None] * reverse(own)[PREFIX]).sum())


def test_unbiased_k3_has_the_gradient_of_k2_times_the_ratio() -> None:
    ratio = (of_rows(logits(2).log_softmax(-1)) - of_rows(OLD)).exp()
    weighted = of(lambda log_probs: (ratio * values(K2(), log_probs, OLD)).sum())
    equal(of(lambda log_probs: values(UnbiasedK3(), log_probs, OLD).sum()), weighted)


@pytest.mark.parametrize("to_go", [True, False], ids=["reward-to-go", "whole row"])
def test_k1_in_the_reward_is_the_divergence_of_rows(to_go: bool) -> None:
    equal(in_reward(K1(), to_go=to_go), ROW_KL)


@every
@pytest.mark.parametrize("to_go", [True, False], ids=["reward-to-go", "whole row"])
def test_in_the_reward_the_gradient_of_the_expectation_less_the_one_in_the_loss(
    estimator: KLEstimator, to_go: bool
) -> None:
    # For the unbiased k3 the ratio is 1 in the reward: there it is k3.
    twin = K3() if isinstance(estimator, UnbiasedK3) else estimator
    equal(in_reward(estimator, to_go=to_go), own_expectation(twin) - in_loss(twin))


@pytest.mark.parametrize("estimator", [K2(), K3(), AbsoluteKL(), ExactKL(), UnbiasedK3()], ids=lambda each: each.name)
def test_in_the_reward_no_other_is_the_divergence_of_rows(estimator: KLEstimator) -> None:
    different(in_reward(estimator, to_go=True), ROW_KL)
    different(in_reward(estimator, to_go=False), ROW_KL)


def test_k3_in_the_reward_lacks_what_it_gives_in_the_loss() -> None:
    equal(in_reward(K3(), to_go=True) + in_loss(K3()), ROW_KL)
    equal(in_reward(UnbiasedK3(), to_go=True), in_reward(K3(), to_go=True))


def test_exact_lacks_the_choice_of_prefixes_in_the_loss_and_gives_just_that_in_the_reward() -> None:
    equal(in_loss(ExactKL()) + in_reward(ExactKL(), to_go=True), ROW_KL)
    equal(in_reward(ExactKL(), to_go=True), ROW_KL - STEP_KL)
