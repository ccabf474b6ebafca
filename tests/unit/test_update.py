"""A gradient between backward and optimizer."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from grpo_lightning.errors import NonFiniteError
from grpo_lightning.reports import UpdateReport
from grpo_lightning.rollout import world
from grpo_lightning.update import (
    RunningUpdate,
    default_optimizer,
    finish_and_clip,
    finish_gradient,
    gradient_norm,
    stage_learning_rate,
    untouched,
    with_schedule,
)

NAN, INF = float("nan"), float("inf")


def module_with(*gradients: list[float] | None) -> nn.Module:
    module = nn.Module()
    for index, gradient in enumerate(gradients):
        parameter = nn.Parameter(torch.ones(2))
        parameter.grad = None if gradient is None else torch.tensor(gradient)
        module.register_parameter(f"p{index}", parameter)
    return module


def update_with(*losses: float) -> RunningUpdate:
    update = RunningUpdate()
    update.losses += [torch.tensor(value) for value in losses]
    return update


def test_norm_is_that_of_all_gradients() -> None:
    assert gradient_norm(module_with([3.0, 0.0], None, [0.0, 4.0])) == 5.0
    assert gradient_norm(module_with(None)) == 0.0
    assert math.isnan(gradient_norm(module_with([NAN, 0.0])))


def test_a_finite_gradient_passes() -> None:
    module, update = module_with([3.0, 4.0], None), update_with(1.0, -2.0)
    assert finish_gradient(module, update, "stop")
    assert update.report.metrics == {"optim/grad_norm": 5.0, "optim/skipped": 0.0}
    assert module.p0.grad is not None
    assert module.p0.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("policy", ["stop", "skip"])
@pytest.mark.parametrize("gradient", [[0.0, -0.0], None])
def test_a_gradient_of_0_is_taken_away(policy: str, gradient: list[float] | None) -> None:
    module, update = module_with(gradient, None), update_with(0.5)
    assert not finish_gradient(module, update, policy)
    assert update.report.metrics == {"optim/grad_norm": 0.0, "optim/skipped": 0.0}
    assert module.p0.grad is None


BROKEN = [
    ([1.0, 1.0], (1.0, NAN), "loss nan"),
    ([1.0, 1.0], (-INF, 1.0), "loss -inf"),
    ([NAN, 1.0], (1.0,), "gradient norm nan"),
    ([INF, 1.0], (1.0,), "gradient norm inf"),
    ([0.0, 0.0], (NAN,), "loss nan"),
]


@pytest.mark.parametrize(("gradient", "values", "named"), BROKEN)
def test_what_is_not_finite_stops(gradient: list[float], values: tuple[float, ...], named: str) -> None:
    with pytest.raises(NonFiniteError, match=f"'stop' met {named}, the weights are as before"):
        finish_gradient(module_with(gradient), update_with(*values), "stop")


@pytest.mark.parametrize(("gradient", "values", "named"), BROKEN)
def test_what_is_not_finite_is_skipped_and_said_to_be(
    gradient: list[float], values: tuple[float, ...], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    module, update = module_with(gradient, [1.0, 1.0]), update_with(*values)
    with caplog.at_level(logging.WARNING, logger="grpo_lightning"):
        assert not finish_gradient(module, update, "skip")
    assert update.report.metrics["optim/skipped"] == 1.0
    assert module.p0.grad is module.p1.grad is None
    assert [record.getMessage() for record in caplog.records] == [f"update skipped: {named}"]


def test_a_loss_of_another_rank_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "gather", lambda value: [value, [], [2.0, NAN]])
    with pytest.raises(NonFiniteError, match="loss nan"):
        finish_gradient(module_with([1.0, 1.0]), update_with(1.0), "stop")


def test_a_complete_report() -> None:
    update = RunningUpdate()
    update.report = UpdateReport("grpo", 3, 1, {"optim/grad_norm": 5.0})
    update.statistics.count(rows=2, steps=4)
    update.statistics.total("train/loss", torch.tensor(2.5))
    update.complete(learning_rate=0.25)
    metrics = update.report.metrics
    assert metrics.pop("time/update") > 0
    assert metrics == {
        "optim/grad_norm": 5.0, "train/loss": 2.5, "perf/rows_run": 2.0, "perf/steps_run": 4.0,
        "perf/micro_batches": 1.0, "optim/learning_rate": 0.25,
    }  # fmt: skip


def test_an_optimizer_with_and_without_a_schedule() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    assert with_schedule(optimizer, None) is optimizer
    made = with_schedule(optimizer, lambda given: torch.optim.lr_scheduler.ConstantLR(given, factor=0.5))
    assert made["optimizer"] is optimizer
    assert made["lr_scheduler"]["scheduler"].optimizer is optimizer
    assert made["lr_scheduler"]["interval"] == "step"


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD])
def test_an_optimizer_leaves_alone_what_has_no_gradient(make: Any) -> None:
    """What finish_gradient relies on: neither moments nor weight decay act on a parameter without gradient."""
    module = module_with([1.0, 2.0])
    optimizer = make(module.parameters(), lr=0.1, weight_decay=0.5)
    optimizer.step()
    before = module.p0.detach().clone()
    module.p0.grad = torch.zeros(2)
    finish_gradient(module, update_with(0.0), "stop")
    optimizer.step()
    assert torch.equal(module.p0, before)


@pytest.mark.parametrize(("limit", "scale"), [(2.0, 0.4), (5.5, 1.0), (None, 1.0), (0.0, 1.0)])
def test_clipping_uses_the_norm_that_is_known(
    limit: float | None, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient (3, 0), (0, 4) has the norm 5; it is taken once."""
    module, taken = module_with([3.0, 0.0], None, [0.0, 4.0]), []
    monkeypatch.setattr("grpo_lightning.update.gradient_norm", lambda given: taken.append(given) or 5.0)
    finish_and_clip(module, update_with(1.0), "stop", None, limit, None)
    assert taken == [module]
    assert module.p0.grad.tolist() == pytest.approx([3.0 * scale, 0.0])  # type: ignore[union-attr, operator]
    assert module.p2.grad.tolist() == pytest.approx([0.0, 4.0 * scale])  # type: ignore[union-attr, operator]


def test_clipping_by_value_is_the_trainers() -> None:
    asked = []
    module = module_with([3.0, 0.0])
    module.clip_gradients = lambda *arguments: asked.append(arguments)
    finish_and_clip(module, update_with(1.0), "stop", "optimizer", 0.5, "value")
    finish_and_clip(module_with([NAN, 0.0]), update_with(1.0), "skip", "optimizer", 0.5, "value")
    assert asked == [("optimizer", 0.5, "value")]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scaler", [None, "scaler"])
def test_the_default_optimizer_is_adam_by_hand(dtype: torch.dtype, scaler: str | None) -> None:
    weight = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=dtype))
    module = nn.Module()
    module.trainer = SimpleNamespace(precision_plugin=SimpleNamespace(scaler=scaler))
    optimizer = default_optimizer(module, [weight], 0.1)
    assert bool(optimizer.defaults["fused"]) == (scaler is None)
    values, first, second = [1.0, -2.0, 0.5], [0.0] * 3, [0.0] * 3
    for step, gradient in enumerate(([0.3, -1.0, 0.0], [-0.2, 0.5, 2.0], [0.1, 0.1, 0.1]), start=1):
        weight.grad = torch.tensor(gradient, dtype=dtype)
        optimizer.step()
        for i, g in enumerate(gradient):
            first[i], second[i] = 0.9 * first[i] + 0.1 * g, 0.999 * second[i] + 0.001 * g * g
            size = math.sqrt(second[i] / (1 - 0.999**step)) + 1e-8
            values[i] -= 0.1 * first[i] / (1 - 0.9**step) / size
        assert weight.tolist() == pytest.approx(values, abs=1e-12 if dtype == torch.float64 else 1e-6)


def test_learning_rate_of_a_stage() -> None:
    first, second = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 0.2}])

    def rates() -> list[float]:
        return [group["lr"] for group in optimizer.param_groups]

    with stage_learning_rate(optimizer, 0.7):
        assert rates() == [0.7, 0.7]
    assert rates() == [0.1, 0.2]
    with stage_learning_rate(optimizer, None):
        optimizer.param_groups[0]["lr"] = 0.3
    assert rates() == [0.3, 0.2]
    with pytest.raises(RuntimeError), stage_learning_rate(optimizer, 0.7):
        raise RuntimeError
    assert rates() == [0.3, 0.2]


class Holder(nn.Module):
    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.trained = nn.Parameter(torch.tensor([[1.0, NAN], [INF, 2.0]]))
        self.other = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)


def test_a_zero_of_nothing_on_one_rank() -> None:
    module = Holder()
    zero = untouched(module)
    assert zero.item() == 0.0
    zero.backward()
    assert module.trained.grad is None


def test_a_zero_of_every_trained_parameter_on_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "world_size", lambda: 2)
    module = Holder()
    zero = untouched(module)
    assert zero.item() == 0.0
    zero.backward()
    assert module.trained.grad is not None
    assert module.other.grad is not None
    assert not module.trained.grad.any()
    assert not module.other.grad.any()
    assert module.frozen.grad is None
