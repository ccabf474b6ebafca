from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from grpo_lightning.functional.linear_head import tiles as tiling
from grpo_lightning.functional.log_probs import chunked_functionals
from grpo_lightning.types import Ragged
from helpers.dense_head import NAMES, HeadCase, dense, make_case, tiled


def values_of(case: HeadCase, head_logits: int, names: tuple[str, ...] = NAMES) -> dict[str, Tensor]:
    with torch.no_grad():
        return chunked_functionals(
            case.hidden,
            case.head(),
            case.chosen,
            case.temperature,
            case.support,
            observed=names,
            reference_hidden_SH=case.other_hidden,
            reference_head=case.other_head(),
            head_logits=head_logits,
        )


@pytest.mark.parametrize("supports", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("head_logits", [1, 9, 36, 100, 10_000])
def test_values_equal_the_dense_ones(supports: bool, bias: bool, head_logits: int) -> None:
    case = make_case(1, bias=bias, supports=supports)
    wanted, _ = dense(case, {})
    found = values_of(case, head_logits)
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("supports", [False, True])
def test_tiles_of_all_sizes_and_strips_of_one_step(supports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(2, steps=9, vocabulary=150, supports=supports, bias=True)
    wanted, _ = dense(case, {})
    for tile, strip, steps in ((1, 1, 1), (70, 1, 4), (9 * 70, 140, 2048), (9 * 150, 300, 2)):
        monkeypatch.setattr(tiling, "LARGEST_TILE", tile)
        monkeypatch.setattr(tiling, "LARGEST_STRIP", strip)
        monkeypatch.setattr(tiling, "LARGEST_STEPS", steps)
        for name, value in values_of(case, 1 << 20).items():
            torch.testing.assert_close(value, wanted[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("head_logits", [30, 10_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_of_ten_thousand(head_logits: int, dtype: torch.dtype) -> None:
    """Logits are whole numbers, exact in both types: what is lost would be lost in subtracting large sums."""
    logits = torch.tensor([[1e4, 1e4 - 1, -1e4, 0.0], [-1e4, -1e4 - 2, -1e4 - 1, -3e4]], dtype=torch.float64)
    case = make_case(3, steps=2, vocabulary=4, width=2, temperatures=False)
    case.hidden, case.weight = torch.eye(2, dtype=torch.float64), logits.T.contiguous()
    case.other_hidden, case.other_weight = case.hidden, case.weight.roll(1, 0)
    case.chosen = torch.tensor([1, 2])
    wanted, _ = dense(case, {})
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    for name, value in values_of(case.to(dtype), head_logits).items():
        torch.testing.assert_close(value.double(), wanted[name], rtol=tolerance, atol=tolerance)


def test_one_thing_to_choose_is_certain() -> None:
    case = make_case(4, steps=3)
    case.supports = [[int(step)] for step in case.chosen]
    found = values_of(case, 16)
    assert found["log_prob"].tolist() == found["entropy"].tolist() == found["exact_kl"].tolist() == [0.0] * 3
    assert found["sum_of_squares"].tolist() == [1.0] * 3


@pytest.mark.parametrize("head_logits", [16, 10_000])
def test_the_divergence_from_an_equal_reference_is_exactly_zero(head_logits: int) -> None:
    case = make_case(5, supports=True).to(torch.float32)
    case.other_hidden, case.other_weight = case.hidden, case.weight
    assert values_of(case, head_logits)["exact_kl"].tolist() == [0.0] * 7


def test_a_bias_of_minus_infinity_forbids() -> None:
    case = make_case(6, bias=True)
    allowed = [0, 2, 3, 7]
    case.chosen = torch.tensor(allowed)[torch.arange(7) % 4]
    forbidden = [index for index in range(11) if index not in allowed]
    assert case.bias is not None
    restricted, _ = dense(HeadCase(**{**vars(case), "supports": [allowed] * 7}), {})
    case.bias[forbidden] = -torch.inf
    found = values_of(case, 20, ("entropy", "sum_of_squares"))
    for name, value in found.items():
        torch.testing.assert_close(value, restricted[name], rtol=1e-12, atol=1e-12)


def test_what_a_support_leaves_out_has_no_log_probability() -> None:
    case = make_case(7, steps=2)
    case.chosen, case.supports = torch.tensor([4, 4]), [[1, 2], [4, 5]]
    found = values_of(case, 10_000)["log_prob"].tolist()
    assert found[0] == -math.inf
    assert math.isfinite(found[1])


@pytest.mark.parametrize("chosen", [-1, 11])
def test_an_id_outside_the_vocabulary_is_an_error(chosen: int) -> None:
    case = make_case(8)
    case.chosen[2] = chosen
    with pytest.raises(IndexError, match="outside the vocabulary of 11"):
        values_of(case, 100)


def test_logits_that_are_no_numbers_show() -> None:
    case = make_case(9)
    case.hidden[3, 0] = torch.nan
    found = values_of(case, 20)
    for value in found.values():
        assert value.isnan().tolist() == [False] * 3 + [True] + [False] * 3


def test_no_steps() -> None:
    case = make_case(10, steps=0, supports=True, bias=True)
    values, gradients = tiled(case, {"log_prob": torch.zeros(0), "entropy": torch.zeros(0)}, 100)
    assert all(value.shape == (0,) for value in values.values())
    assert gradients["hidden"].shape == (0, 4)
    assert not gradients["weight"].any()
    assert not gradients["bias"].any()


class Sizes(TorchDispatchMode):
    """Elements of the largest tensor that comes out of an operation, and of all memory asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.fresh = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            # What has the width of the weight or of hidden states is no logits.
            if isinstance(tensor, Tensor) and tensor.dim() and tensor.shape[-1] != WIDTH:
                self.largest = max(self.largest, tensor.numel())
                self.fresh += tensor.numel() if func is torch.ops.aten.empty.memory_format else 0
        return result


WIDTH = 3


def sizes_of(steps: int, vocabulary: int, budget: int, dtype: torch.dtype) -> Sizes:
    head = nn.Linear(WIDTH, vocabulary, bias=False, dtype=dtype)
    hidden = torch.randn(steps, WIDTH, dtype=dtype, requires_grad=True)
    chosen = torch.arange(steps) % vocabulary
    with Sizes() as sizes:
        result = chunked_functionals(
            hidden, head, chosen, torch.ones(steps), None, {"entropy"}, observed={"sum_of_squares"}, head_logits=budget
        )
        sum(value.sum() for value in result.values()).backward()  # type: ignore[union-attr]
    assert head.weight.grad is not None
    return sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_memory_does_not_grow_with_steps_or_vocabulary(dtype: torch.dtype) -> None:
    budget = 4096
    for steps, vocabulary in ((64, 500), (64, 4000), (500, 500)):
        sizes = sizes_of(steps, vocabulary, budget, dtype)
        assert budget // 8 <= sizes.largest <= budget
        assert sizes.fresh <= 2 * budget, "once forward and once backward"


def test_support_need_not_be_on_ascending_steps_only() -> None:
    """One step with everything between two with supports, and the tile that a support's id lies in comes last."""
    case = make_case(11, steps=3, vocabulary=130)
    case.chosen, case.supports = torch.tensor([129, 64, 0]), [[1, 129], [], [0, 63, 64]]
    wanted, _ = dense(case, {})
    for head_logits in (12, 800, 100_000):
        for name, value in values_of(case, head_logits).items():
            torch.testing.assert_close(value, wanted[name], rtol=1e-12, atol=1e-12)
    assert isinstance(case.support, Ragged)
