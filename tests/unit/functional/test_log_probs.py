from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from grpo_lightning.functional.log_probs import (
    FUNCTIONALS,
    chunked_functionals,
    distribution,
    functionals_of,
    restrict,
)
from grpo_lightning.types import Ragged

V, H, S = 11, 4, 7
CHOSEN = [3, 0, 10, 5, 5, 1, 7]
TEMPERATURES = [1.0, 0.5, 2.0, 1.0, 1.3, 0.7, 1.0]
SUPPORTS = [[], [0, 4], [10], list(range(V)), [], [1, 2, 9], [6, 7]]


def setting(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden states and head of the policy, and of its reference."""
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((S, H), (V, H), (S, H), (V, H))]
    return draw[0], 2 * draw[1], draw[2], draw[3]


def loop(logits: list[float], temperature: float, support: list[int]) -> dict[int, float]:
    """Log-probabilities by id, from the definition."""
    allowed = support or list(range(len(logits)))
    top = max(logits[v] / temperature for v in allowed)
    total = math.fsum(math.exp(logits[v] / temperature - top) for v in allowed)
    return {v: logits[v] / temperature - top - math.log(total) for v in allowed}


def reference_values(supports: list[list[int]] | None) -> dict[str, list[float]]:
    hidden, head, reference_hidden, reference_head = setting()
    result: dict[str, list[float]] = {"log_prob": [], "entropy": [], "sum_of_squares": [], "exact_kl": []}
    for s in range(S):
        support = supports[s] if supports else []
        own = loop((head @ hidden[s]).tolist(), TEMPERATURES[s], support)
        other = loop((reference_head @ reference_hidden[s]).tolist(), TEMPERATURES[s], support)
        result["log_prob"].append(own[CHOSEN[s]])
        result["entropy"].append(-math.fsum(math.exp(lp) * lp for lp in own.values()))
        result["sum_of_squares"].append(math.fsum(math.exp(lp) ** 2 for lp in own.values()))
        result["exact_kl"].append(math.fsum(math.exp(own[v]) * (own[v] - other[v]) for v in own))
    return result


def run(head_logits: int, supports: list[list[int]] | None, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """All functionals, and the gradients of a sum that uses each of them."""
    hidden, head, reference_hidden, reference_head = setting(dtype)
    hidden.requires_grad_()
    head.requires_grad_()
    result = chunked_functionals(
        hidden,
        lambda h: h @ head.T,
        torch.tensor(CHOSEN),
        torch.tensor(TEMPERATURES),
        None if supports is None else Ragged.from_list(supports, torch.int32),
        FUNCTIONALS,
        reference_hidden_SH=reference_hidden,
        reference_head=lambda h: h @ reference_head.T,
        head_logits=head_logits,
    )
    mixed = sum(value.sum() * weight for value, weight in zip(result.values(), (1.0, 0.3, 0.7, -0.2), strict=True))
    assert isinstance(mixed, Tensor)
    gradients = torch.autograd.grad(mixed, (hidden, head))
    return {
        **{name: value.detach() for name, value in result.items()},
        "d hidden": gradients[0],
        "d head": gradients[1],
    }


with_and_without = pytest.mark.parametrize("supports", [None, SUPPORTS], ids=["everything", "supports"])


@with_and_without
@pytest.mark.parametrize("chunk", [1, 3, 1024])
def test_equal_plain_loops(supports: list[list[int]] | None, chunk: int) -> None:
    result = run(chunk * V, supports)
    for name, values in reference_values(supports).items():
        # Temperatures arrive in float32.
        torch.testing.assert_close(result[name], torch.tensor(values, dtype=torch.float64), rtol=1e-6, atol=1e-6)


@with_and_without
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("chunk", [1, 2, 3, 6])
def test_chunks_change_neither_values_nor_gradients(
    supports: list[list[int]] | None, dtype: torch.dtype, chunk: int
) -> None:
    whole, parts = run(1024 * V, supports, dtype), run(chunk * V, supports, dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=tolerance, atol=tolerance)


def test_gradients_are_finite_and_right_with_supports() -> None:
    hidden, head, *_ = setting()
    support = Ragged.from_list(SUPPORTS, torch.int32)

    def functionals(states: Tensor) -> tuple[Tensor, ...]:
        reference = distribution(torch.zeros(S, V, dtype=torch.float64), torch.tensor(TEMPERATURES), support)
        log_probs = distribution(states @ head.T, torch.tensor(TEMPERATURES), support)
        return tuple(functionals_of(log_probs, torch.tensor(CHOSEN), FUNCTIONALS, reference).values())

    assert torch.autograd.gradcheck(functionals, (hidden.requires_grad_(),))
    assert all(value.isfinite().all() for value in run(3 * V, SUPPORTS).values())
    assert all(value.isfinite().all() for value in run(3 * V, SUPPORTS, torch.float32).values())


def test_a_step_that_could_choose_one_thing_only_is_certain() -> None:
    result = run(1024 * V, SUPPORTS)
    assert result["log_prob"][2].item() == 0.0
    assert result["entropy"][2].item() == 0.0
    assert result["sum_of_squares"][2].item() == 1.0
    assert result["exact_kl"][2].item() == 0.0
    assert result["d hidden"][2].tolist() == [0.0] * H


def test_the_divergence_from_an_equal_reference_is_exactly_zero() -> None:
    hidden, head, *_ = setting(torch.float32)
    result = chunked_functionals(
        hidden,
        lambda h: h @ head.T,
        torch.tensor(CHOSEN),
        torch.tensor(TEMPERATURES),
        Ragged.from_list(SUPPORTS, torch.int32),
        {"exact_kl"},
        reference_hidden_SH=hidden,
        reference_head=lambda h: h @ head.T,
        head_logits=2 * V,
    )
    assert result["exact_kl"].tolist() == [0.0] * S


def test_only_what_is_asked_for_is_returned() -> None:
    log_probs = torch.zeros(2, 4).log_softmax(-1)
    assert list(functionals_of(log_probs, torch.tensor([0, 1]), ())) == ["log_prob"]
    assert set(functionals_of(log_probs, torch.tensor([0, 1]), {"entropy"})) == {"log_prob", "entropy"}
    with pytest.raises(ValueError, match="reference"):
        functionals_of(log_probs, torch.tensor([0, 1]), {"exact_kl"})


def test_restrict_keeps_what_a_step_may_choose() -> None:
    logits = torch.arange(6.0).reshape(2, 3)
    some = restrict(logits, Ragged.from_list([[0, 2], []], torch.int32))
    assert some.tolist() == [[0.0, -math.inf, 2.0], [3.0, 4.0, 5.0]]
    assert restrict(logits, None) is logits
    assert restrict(logits, Ragged.from_list([[], []], torch.int32)).tolist() == logits.tolist()


def test_reductions_are_in_float32_or_wider() -> None:
    logits = torch.randn(2, 5)
    ones = torch.ones(2)
    assert distribution(logits.bfloat16(), ones, None).dtype == torch.float32
    assert distribution(logits, ones, None).dtype == torch.float32
    assert distribution(logits.double(), ones, None).dtype == torch.float64
    torch.testing.assert_close(
        distribution(logits.bfloat16(), ones, None), logits.bfloat16().double().log_softmax(-1).float()
    )


def test_no_steps() -> None:
    hidden = torch.zeros(0, H, requires_grad=True)
    none = torch.zeros(0, dtype=torch.int64)
    result = chunked_functionals(
        hidden, lambda h: h @ torch.ones(H, V), none, torch.zeros(0), Ragged.from_list([], torch.int32), {"entropy"}
    )
    assert result["log_prob"].shape == result["entropy"].shape == (0,)
    torch.autograd.grad(result["log_prob"].sum(), hidden)


def test_logits_of_more_than_a_chunk_never_exist_at_once() -> None:
    hidden, head, *_ = setting()
    seen: list[int] = []

    def watched(states: Tensor) -> Tensor:
        seen.append(states.shape[0])
        return states @ head.T

    hidden.requires_grad_()
    result = chunked_functionals(
        hidden, watched, torch.tensor(CHOSEN), torch.tensor(TEMPERATURES), None, head_logits=3 * V + 1
    )
    result["log_prob"].sum().backward()  # type: ignore[no-untyped-call]
    assert sorted(seen) == [0, 1, 1, 3, 3, 3, 3], "each chunk once forward and once more in the backward pass"
