from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grpo_lightning.functional.linear_head import matmul_type
from grpo_lightning.functional.linear_head import tiles as tiling
from grpo_lightning.functional.log_probs import chunked_functionals
from helpers.dense_head import NAMES, dense, draw_upstream, make_case, relative, tiled

ALL = ("log_prob", *NAMES)
SUBSETS = [names for count in range(1, 5) for names in itertools.combinations(ALL, count)]


@pytest.mark.parametrize("names", SUBSETS, ids="+".join)
@pytest.mark.parametrize("supports", [False, True])
def test_gradients_equal_the_dense_ones(names: tuple[str, ...], supports: bool) -> None:
    case, upstream = make_case(1, bias=True, supports=supports), draw_upstream(names, 7)
    values, wanted = dense(case, upstream)
    for head_logits in (1, 36, 150, 10_000):
        found_values, found = tiled(case, upstream, head_logits)
        for name in wanted:
            assert relative(found[name], wanted[name]) < 1e-10, (name, head_logits)
        for name in values:
            torch.testing.assert_close(found_values[name], values[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("supports", [False, True])
def test_parts_blocks_and_strips(supports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case, upstream = make_case(2, steps=9, vocabulary=150, supports=supports, bias=True), draw_upstream(ALL, 9)
    _, wanted = dense(case, upstream)
    for tile, strip, steps in ((1, 1, 1), (70, 1, 4), (9 * 70, 140, 2048), (9 * 150, 300, 2)):
        monkeypatch.setattr(tiling, "LARGEST_TILE", tile)
        monkeypatch.setattr(tiling, "LARGEST_STRIP", strip)
        monkeypatch.setattr(tiling, "LARGEST_STEPS", steps)
        for head_logits in (4 * tile, 1 << 20):
            for name, gradient in tiled(case, upstream, head_logits)[1].items():
                assert relative(gradient, wanted[name]) < 1e-10, (name, tile, head_logits)


@pytest.mark.parametrize("head_logits", [36, 10_000])
def test_gradcheck(head_logits: int) -> None:
    case = make_case(3, steps=5, bias=True, supports=True)
    assert case.bias is not None
    other = case.other_head()

    def functionals(hidden: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        head = case.head()
        head.weight, head.bias = nn.Parameter(weight), nn.Parameter(bias)
        # Parameters cut the graph: the tensors take their place.
        del head._parameters["weight"], head._parameters["bias"]
        head.__dict__.update(weight=weight, bias=bias)
        assert matmul_type(hidden, head) == torch.float64
        result = chunked_functionals(
            hidden, head, case.chosen, case.temperature, case.support, NAMES,
            reference_hidden_SH=case.other_hidden, reference_head=other, head_logits=head_logits,
        )  # fmt: skip
        return tuple(result.values())

    inputs = [tensor.clone().requires_grad_() for tensor in (case.hidden, case.weight, case.bias)]
    assert torch.autograd.gradcheck(functionals, inputs)


@pytest.mark.parametrize("frozen", [("hidden",), ("weight",), ("bias",), ("hidden", "bias"), ("weight", "bias")])
def test_frozen_inputs_get_nothing_and_change_nothing(frozen: tuple[str, ...]) -> None:
    case, upstream = make_case(4, bias=True), draw_upstream(ALL, 7)
    _, wanted = dense(case, upstream)
    _, found = tiled(case, upstream, 36, frozen)
    assert set(found) == set(wanted) - set(frozen)
    for name, gradient in found.items():
        assert relative(gradient, wanted[name]) < 1e-10


@pytest.mark.parametrize("head_logits", [36, 10_000])
@pytest.mark.parametrize("moved", [[], [4], [0, 3, 6]])
def test_steps_without_upstream_gradient_are_not_run(
    head_logits: int, moved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, upstream = make_case(5, bias=True, supports=True), draw_upstream(ALL, 7)
    for value in upstream.values():
        value[[step for step in range(7) if step not in moved]] = 0.0
    _, wanted = dense(case, upstream)
    seen: list[int] = []
    scatter_add_ = Tensor.scatter_add_

    def watched(self: Tensor, *arguments: Any) -> Tensor:
        seen.append(self.shape[0])
        return scatter_add_(self, *arguments)

    monkeypatch.setattr(Tensor, "scatter_add_", watched)
    _, found = tiled(case, upstream, head_logits)
    assert set(seen) == ({len(moved)} if moved else set()), "steps in the tiles of the backward pass"
    for name, gradient in found.items():
        assert relative(gradient, wanted[name]) < 1e-10


def test_an_upstream_gradient_that_is_no_number_shows() -> None:
    case, upstream = make_case(6), {"log_prob": torch.zeros(7)}
    upstream["log_prob"][2] = torch.nan
    _, found = tiled(case, upstream, 36)
    assert found["weight"].isnan().all()
    assert found["hidden"].isnan().any(1).tolist() == [step == 2 for step in range(7)]


@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_extreme_logits(scale: float) -> None:
    case, upstream = make_case(7, supports=True, bias=True, scale=scale), draw_upstream(ALL, 7)
    values, wanted = dense(case, upstream)
    found_values, found = tiled(case, upstream, 36)
    for name in values:
        torch.testing.assert_close(found_values[name], values[name], rtol=1e-12, atol=1e-9)
    for name, gradient in found.items():
        assert relative(gradient, wanted[name]) < 1e-9


@pytest.mark.parametrize("head_logits", [300, 100_000])
def test_float32(head_logits: int) -> None:
    case, upstream = make_case(8, steps=20, vocabulary=200, bias=True).to(torch.float32), draw_upstream(ALL, 20)
    values, wanted = dense(case.to(torch.float64), upstream)
    found_values, found = tiled(case, upstream, head_logits)
    for name in values:
        assert found_values[name].dtype == torch.float32
        torch.testing.assert_close(found_values[name].double(), values[name], rtol=1e-5, atol=1e-5)
    for name, gradient in found.items():
        assert gradient.dtype == torch.float32
        assert relative(gradient, wanted[name]) < 1e-5


@pytest.mark.parametrize("supports", [False, True])
@pytest.mark.parametrize("names", [("log_prob",), ALL], ids="+".join)
@pytest.mark.parametrize("head_logits", [300, 100_000])
def test_bf16_autocast_is_near_the_plain_path(names: tuple[str, ...], supports: bool, head_logits: int) -> None:
    """Both multiply in bfloat16 and reduce in float32; the backward pass runs outside of the autocast, as usual."""
    case = make_case(9, steps=20, vocabulary=200, bias=True, supports=supports).to(torch.float32)
    upstream = draw_upstream(names, 20)
    hooked = case.head()
    hooked.register_forward_hook(lambda *_: None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert matmul_type(case.hidden, case.head()) == torch.bfloat16
        assert matmul_type(case.hidden, hooked) is None
    results = []
    for head in (case.head(), hooked):
        hidden = case.hidden.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values = chunked_functionals(
                hidden, head, case.chosen, case.temperature, case.support, [name for name in NAMES if name in names],
                observed=NAMES, reference_hidden_SH=case.other_hidden, reference_head=case.other_head(),
                head_logits=head_logits,
            )  # fmt: skip
        outputs = [values[name] for name in names]
        inputs = [hidden, head.weight, head.bias]
        results.append((values, torch.autograd.grad(outputs, inputs, [upstream[name].float() for name in names])))
    (found_values, found), (plain_values, plain) = results
    for name, value in plain_values.items():
        assert found_values[name].dtype == torch.float32
        torch.testing.assert_close(found_values[name], value, rtol=1e-5, atol=1e-5)
    for gradient, wanted in zip(found, plain, strict=True):
        assert gradient.dtype == torch.float32
        assert relative(gradient, wanted.double()) < 1e-2


def test_twice_through_a_graph_that_is_kept() -> None:
    case = make_case(10)
    head, hidden = case.head(), case.hidden.clone().requires_grad_()
    result = chunked_functionals(hidden, head, case.chosen, case.temperature, None, {"entropy"})
    total = result["log_prob"].sum() + 0.3 * result["entropy"].sum()
    first = torch.autograd.grad(total, (hidden, head.weight), retain_graph=True)
    again = torch.autograd.grad(total, (hidden, head.weight))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))


def test_a_gradient_of_the_gradient_is_refused() -> None:
    case = make_case(11)
    hidden = case.hidden.clone().requires_grad_()
    result = chunked_functionals(hidden, case.head(), case.chosen, case.temperature, None)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(result["log_prob"].sum(), hidden, create_graph=True)


def test_gradients_of_tied_weights_add_up() -> None:
    case, upstream = make_case(12), draw_upstream(("log_prob",), 7)["log_prob"]
    embedding, head, ids = nn.Embedding(11, 4, dtype=torch.float64), case.head(), torch.arange(7) % 5
    embedding.weight = head.weight
    result = chunked_functionals(embedding(ids), head, case.chosen, case.temperature, None, head_logits=40)
    result["log_prob"].backward(upstream)
    case.hidden = case.weight[ids]
    _, wanted = dense(case, {"log_prob": upstream})
    both = wanted["weight"].index_add(0, ids, wanted["hidden"])
    assert head.weight.grad is not None
    assert relative(head.weight.grad, both) < 1e-10


def test_without_gradient_nothing_is_kept() -> None:
    case = make_case(13)
    head = case.head().requires_grad_(False)
    assert not chunked_functionals(case.hidden, head, case.chosen, case.temperature, None)["log_prob"].requires_grad
    head.requires_grad_()
    with torch.no_grad():
        result = chunked_functionals(case.hidden, head, case.chosen, case.temperature, None)
    assert not result["log_prob"].requires_grad


def changed_class() -> nn.Linear:
    class Scaled(nn.Linear):
        def forward(self, hidden: Tensor) -> Tensor:
            return 2 * super().forward(hidden)

    return Scaled(4, 11, dtype=torch.float64)


def changed_method() -> nn.Linear:
    head = nn.Linear(4, 11, dtype=torch.float64)
    plain = head.forward
    head.forward = lambda hidden: 2 * plain(hidden)  # type: ignore[method-assign]
    return head


def changed_by_hook() -> nn.Linear:
    head = nn.Linear(4, 11, dtype=torch.float64)
    head.register_forward_hook(lambda _module, _arguments, output: 2 * output)
    return head


def changed_by_parametrisation() -> nn.Linear:
    head = nn.Linear(4, 11, dtype=torch.float64)
    nn.utils.parametrizations.weight_norm(head)
    return head


@pytest.mark.parametrize("make", [changed_class, changed_method, changed_by_hook, changed_by_parametrisation])
def test_heads_that_are_more_than_linear_run_as_they_are(make: Any) -> None:
    case, head = make_case(14, temperatures=False), make()
    assert matmul_type(case.hidden, nn.Linear(4, 11, dtype=torch.float64)) == torch.float64
    assert matmul_type(case.hidden, head) is None
    found = chunked_functionals(case.hidden, head, case.chosen, case.temperature, None, head_logits=22)["log_prob"]
    wanted = head(case.hidden).log_softmax(-1)[torch.arange(7), case.chosen]
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
