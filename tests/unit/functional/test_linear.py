"""Products of linear layers by oneDNN against float64, values and gradients, and when they are used."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from grpo_lightning.functional import linear as module
from grpo_lightning.functional.linear import faster_linears, linear, suits
from grpo_lightning.policies.lora import LoRA
from helpers.hand_loss import example_rows, to_collected
from helpers.tiny_policy import gradients, move, tiny_policy
from helpers.tiny_policy import relative as relative_of

CLOSE = 2e-6


@pytest.fixture(autouse=True)
def _everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor that MKL is slow on, for products of any size."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(module, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(module, "LEAST_PRODUCT", 1)


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(5, 24), (2, 7, 24), (1, 24), (3, 2, 2, 24)])
def test_values_and_gradients(shape: tuple[int, ...], bias: bool) -> None:
    hidden, weight, offset, upstream = (
        draw(*shape),
        draw(40, 24, seed=1),
        draw(40, seed=2),
        draw(*shape[:-1], 40, seed=3),
    )
    leaves = [each.requires_grad_() for each in (hidden, weight, offset)][: 2 + bias]
    found = linear(*leaves)
    found.backward(upstream)
    hidden_64, weight_64, upstream_64 = (each.detach().double() for each in (hidden, weight, upstream))
    flat, slope = hidden_64.reshape(-1, 24), upstream_64.reshape(-1, 40)
    wanted = torch.einsum("ni,oi->no", flat, weight_64) + (offset.detach().double() if bias else 0)
    assert found.shape == (*shape[:-1], 40)
    assert relative(found.detach().reshape(-1, 40), wanted) < CLOSE
    assert relative(hidden.grad.reshape(-1, 24), torch.einsum("no,oi->ni", slope, weight_64)) < CLOSE
    assert relative(weight.grad, torch.einsum("no,ni->oi", slope, flat)) < CLOSE
    if bias:
        assert relative(offset.grad, slope.sum(0)) < CLOSE


@pytest.mark.parametrize("kind", ["expanded", "strided", "transposed"])
def test_tensors_that_do_not_lie_row_by_row(kind: str) -> None:
    hidden = {
        "expanded": draw(1, 24).expand(6, 24),
        "strided": draw(6, 48)[:, ::2],
        "transposed": draw(24, 6).t(),
    }[kind].detach()
    weight = draw(40, 24, seed=1).requires_grad_()
    hidden.requires_grad_()
    # The gradient of a sum is one number that lies at every place.
    linear(hidden, weight).sum().backward()
    assert relative(hidden.grad, weight.detach().double().sum(0).expand(6, 24)) < CLOSE
    assert relative(weight.grad, hidden.detach().double().sum(0).expand(40, 24)) < CLOSE


def test_only_wanted_gradients_are_made() -> None:
    hidden, weight = draw(6, 24).requires_grad_(), draw(40, 24, seed=1)
    linear(hidden, weight).sum().backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_second_derivative() -> None:
    hidden, weight = draw(6, 24).requires_grad_(), draw(40, 24, seed=1).requires_grad_()
    (slope,) = torch.autograd.grad((linear(hidden, weight) ** 2).sum(), hidden, create_graph=True)
    slope.sum().backward()
    # d/dW of sum(2 x W^T W): with s the sum of the rows of x and 1 of ones, 2 (W 1 s^T + W s 1^T).
    summed, weight_64 = hidden.detach().double().sum(0), weight.detach().double()
    ones = torch.ones(24, dtype=torch.float64)
    wanted = 2 * (torch.outer(weight_64 @ ones, summed) + torch.outer(weight_64 @ summed, ones))
    assert relative(weight.grad, wanted) < CLOSE


def test_what_it_leaves_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight = draw(6, 24), draw(40, 24)
    assert suits(hidden, weight)
    assert not suits(hidden.double(), weight.double())
    assert not suits(hidden.bfloat16(), weight.bfloat16())
    assert not suits(hidden[0], weight)
    assert not suits(hidden[:0], weight)
    assert not suits(hidden.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not suits(hidden, weight)
        with faster_linears():
            assert nn.functional.linear(hidden, weight).dtype == torch.bfloat16
    with torch.backends.mkldnn.flags(enabled=False):
        assert not suits(hidden, weight)
    monkeypatch.setattr(module, "LEAST_PRODUCT", 6 * 24 * 40 + 1)
    assert not suits(hidden, weight)
    monkeypatch.setattr(module, "LEAST_PRODUCT", 6 * 24 * 40)
    assert suits(hidden, weight)
    monkeypatch.setattr(module, "mkl_is_slow", lambda: False)
    assert not suits(hidden, weight)


def test_layers_go_through_it_only_inside() -> None:
    layer, hidden = nn.Linear(24, 40), draw(6, 24)
    with faster_linears():
        inside = layer(hidden)
    assert "AddBackward" in type(inside.grad_fn).__name__
    assert "AddmmBackward" in type(layer(hidden).grad_fn).__name__


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("rank", [None, 2])
def test_gradient_of_a_policy(checkpointing: bool, rank: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    products = Counter[torch.dtype]()

    def seen(hidden: Tensor, weight: Tensor) -> bool:
        products[hidden.dtype] += suits(hidden, weight)
        return suits(hidden, weight)

    monkeypatch.setattr(module, "suits", seen)
    found, state = {}, None
    for dtype in ("float32", "float64"):
        lora = None if rank is None else LoRA(rank=rank)
        policy = tiny_policy(dtype=dtype, activation_checkpointing=checkpointing, lora=lora)
        if lora is not None:
            move(policy.model, seed=1, scale=0.05)
            state = policy.model.state_dict() if dtype == "float32" else state
            policy.model.load_state_dict(state)
        output = policy(to_collected(example_rows(policy.causal_lm)).rollouts)["log_prob"]
        (output * torch.arange(1, 1 + len(output))).sum().backward()
        found[dtype] = gradients(policy)
    # Seven projections in each of three layers, and again where layers are run again.
    assert products[torch.float32] >= 3 * 7 * (1 + checkpointing)
    assert products[torch.float64] == 0
    wanted = found["float64"]
    assert relative_of({name: each.double() for name, each in found["float32"].items()}, wanted) < 1e-5
