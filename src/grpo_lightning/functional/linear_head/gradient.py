"""Gradient of a linear head's functionals, tile by tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from typing_extensions import override

from grpo_lightning.functional.linear_head.sums import HeadJob, Tile, linear_functionals, walk
from grpo_lightning.functional.linear_head.tiles import Side, Steps, Tiles


@dataclass(frozen=True)
class Slopes:
    """What the gradient of some steps' logits is made of, by step as [S, 1]: upstream gradients and normalisers in it.

    With u = x - ``top`` and w the same of the reference, the gradient is ``chosen`` at what was chosen, and everywhere
    exp(u) (``constant`` + ``log_prob`` u + ``log_ratio`` (u - w) + ``prob`` exp(u)).
    """

    columns: Mapping[str, Tensor]

    @staticmethod
    def of(upstream: Mapping[str, Tensor], values: Mapping[str, Tensor], temperature_S: Tensor | None) -> Slopes:
        """From upstream gradients by functional, and the functionals and normalisers."""
        log_total_S = values["log_total"]
        inverse_S = torch.ones_like(log_total_S) if temperature_S is None else 1 / temperature_S.to(log_total_S.dtype)
        scale_S = inverse_S * torch.exp(-log_total_S)
        given = {name: value.to(scale_S.dtype) for name, value in upstream.items()}
        constant_S, columns = torch.zeros_like(scale_S), {"top": values["top"], "chosen": torch.zeros_like(scale_S)}
        if "log_prob" in given:
            columns["chosen"] = given["log_prob"] * inverse_S
            constant_S = constant_S - given["log_prob"] * scale_S
        if "entropy" in given:
            columns["log_prob"] = -given["entropy"] * scale_S
            constant_S = constant_S + columns["log_prob"] * (values["entropy"] - log_total_S)
        if "sum_of_squares" in given:
            twice_S = 2 * given["sum_of_squares"] * scale_S
            columns["prob"] = twice_S * torch.exp(-log_total_S)
            constant_S = constant_S - twice_S * values["sum_of_squares"]
        if "exact_kl" in given:
            columns["log_ratio"] = given["exact_kl"] * scale_S
            columns["reference_top"] = values["reference_top"]
            within_S = values["exact_kl"] + (log_total_S - values["reference_log_total"])
            constant_S = constant_S - columns["log_ratio"] * within_S
        columns["constant"] = constant_S
        return Slopes({name: column[:, None] for name, column in columns.items()})

    def part(self, part: slice) -> Slopes:
        """Of some steps."""
        return Slopes({name: column[part] for name, column in self.columns.items()})

    def split(self, count: int) -> list[Slopes]:
        """Of ``count`` steps after others."""
        pieces = zip(*(torch.split(column, count) for column in self.columns.values()), strict=True)
        return [Slopes(dict(zip(self.columns, piece, strict=True))) for piece in pieces]

    def gradient(self, logits_SV: Tensor, reference_SV: Tensor | None, spare_SV: Tensor) -> Tensor:
        """The gradient but for what was chosen, in ``logits_SV`` or ``spare_SV``; all tensors given are used up."""
        of = self.columns
        logits_SV.sub_(of["top"])
        if not of.keys() & {"log_prob", "prob", "log_ratio"}:
            return logits_SV.exp_().mul_(of["constant"])
        powers_SV = torch.exp(logits_SV, out=spare_SV)
        if reference_SV is not None:
            # The difference first: it is small where the two agree, whatever the logits are.
            torch.sub(logits_SV, reference_SV.sub_(of["reference_top"]), out=reference_SV)
        if "log_prob" in of:
            logits_SV.mul_(of["log_prob"]).add_(of["constant"])
        else:
            logits_SV.copy_(of["constant"].expand_as(logits_SV))
        if reference_SV is not None:
            logits_SV.addcmul_(reference_SV, of["log_ratio"])
        if "prob" in of:
            logits_SV.addcmul_(powers_SV, of["prob"])
        return powers_SV.mul_(logits_SV)


def _add_product(total: Tensor, left: Tensor, right: Tensor, tiles: Tiles, *, first: bool) -> None:
    """``total += left @ right``; the first time, what ``total`` held is forgotten."""
    if total.dtype == left.dtype:
        if first:
            torch.mm(left, right, out=total)
        else:
            total.addmm_(left, right)
    else:
        product = torch.mm(left, right, out=tiles.buffer("product", total.shape, left.dtype))
        if first:
            total.copy_(product)
        else:
            # Added in its own type it would be converted in fresh memory.
            total.add_(tiles.buffer("wide product", total.shape, total.dtype).copy_(product))


@dataclass
class Gradients:
    """Where the gradients add up: of hidden states, weight and bias, each where it is wanted."""

    hidden_SH: Tensor | None
    weight_VH: Tensor | None
    bias_V: Tensor | None

    @staticmethod
    def of(policy: Side, wide: torch.dtype, wanted: tuple[bool, bool, bool]) -> Gradients:
        """Of ``policy``, those ``wanted``."""
        hidden, weight, bias = wanted
        return Gradients(
            torch.zeros_like(policy.hidden_SH, dtype=wide) if hidden else None,
            torch.empty_like(policy.weight_VH) if weight else None,
            None if policy.bias_V is None or not bias else torch.zeros_like(policy.bias_V, dtype=wide),
        )

    def add(self, slope_SV: Tensor, hidden_SH: Tensor, tile: Tile) -> None:
        """What the gradient of a tile's logits, in the type of the matmul, adds."""
        part, ids = tile.part, tile.ids
        if self.hidden_SH is not None:
            _add_product(self.hidden_SH[part], slope_SV, tile.weight_VH, tile.tiles, first=ids.start == 0)
        if self.weight_VH is not None:
            _add_product(self.weight_VH[ids], slope_SV.t(), hidden_SH[part], tile.tiles, first=part.start == 0)


def _backward(job: HeadJob, policy: Side, slopes: Slopes, wanted: tuple[bool, bool, bool]) -> Gradients:
    total = Gradients.of(policy, job.wide, wanted)
    policy = policy.to(job.dtype)
    parts: dict[int, list[Slopes]] = {}
    for tile in walk(job, policy, job.reference if "log_ratio" in slopes.columns else None):
        raw_SV, kept = tile.sides["policy"]
        slope_SV = tile.tiles.buffer("slope", raw_SV.shape, job.dtype) if kept else raw_SV
        count = tile.tiles.strip
        if tile.part.start not in parts:
            parts[tile.part.start] = slopes.part(tile.part).split(count)
        column_S, here_S = tile.chosen()
        at_chosen_S = torch.where(here_S[:, None], slopes.columns["chosen"][tile.part], 0)
        pieces = zip(
            parts[tile.part.start],
            tile.strips(),
            torch.split(slope_SV, count),
            torch.split(column_S, count),
            torch.split(at_chosen_S, count),
            strict=True,
        )
        for here, strip, out_SV, column, at_chosen in pieces:
            strip_SV = here.gradient(strip["policy"], strip.get("reference"), strip["spare"])
            strip_SV.scatter_add_(1, column, at_chosen)
            if total.bias_V is not None:
                total.bias_V[tile.ids] += strip_SV.sum(0)
            if strip_SV.data_ptr() != out_SV.data_ptr():
                out_SV.copy_(strip_SV)
        total.add(slope_SV, policy.hidden_SH, tile)
    return total


class LinearFunctionals(torch.autograd.Function):
    """Functionals of a linear head's distributions; the backward pass makes again, tile by tile, the logits not kept."""

    @staticmethod
    @override
    def forward(
        ctx: Any, hidden_SH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, job: HeadJob
    ) -> tuple[Tensor, ...]:
        policy = Side(hidden_SH, weight_VH, bias_V)
        result, normalisers = linear_functionals(job, policy)
        ctx.job, ctx.names = job, (*result, *normalisers)
        ctx.kept = tuple(job.kept)
        # With the tensors saved, which are let go of after the backward pass.
        ctx.save_for_backward(hidden_SH, weight_VH, bias_V, *result.values(), *normalisers.values(), *job.kept.values())
        job.kept.clear()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(result[name] for name in job.names if name in job.observed))
        return tuple(result.values())

    @staticmethod
    @override
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("functionals of a linear head have no second derivative: leave out create_graph")
        hidden_SH, weight_VH, bias_V, *saved = ctx.saved_tensors
        given = {name: value for name, value in zip(ctx.job.names, upstream, strict=True) if value is not None}
        if not given:
            return None, None, None, None
        policy = Side(hidden_SH, weight_VH, bias_V)
        values = dict(zip(ctx.names, saved, strict=False))
        kept = dict(zip(ctx.kept, saved[len(ctx.names) :], strict=True))
        width = kept["policy", 0].shape[1] if kept else None
        job = replace(ctx.job, keeps=False, kept=kept, width=width)
        with torch.autocast(hidden_SH.device.type, enabled=False):
            total = gradients(job, policy, given, values, ctx.needs_input_grad[:3])
        hidden = None if total.hidden_SH is None else total.hidden_SH.to(hidden_SH.dtype)
        bias = None if total.bias_V is None or bias_V is None else total.bias_V.to(bias_V.dtype)
        return hidden, total.weight_VH, bias, None


def gradients(
    job: HeadJob,
    policy: Side,
    upstream: Mapping[str, Tensor],
    values: Mapping[str, Tensor],
    wanted: tuple[bool, bool, bool],
) -> Gradients:
    """Gradients of ``policy`` from ``upstream``; steps without any are not run."""
    moved_S = torch.stack([value != 0 for value in upstream.values()]).any(0)
    steps = moved_S.nonzero().squeeze(1)
    if steps.shape[0] == 0:
        nothing = Gradients.of(policy, job.wide, wanted)
        if nothing.weight_VH is not None:
            nothing.weight_VH.zero_()
        return nothing
    if steps.shape[0] == moved_S.shape[0]:
        return _backward(job, policy, Slopes.of(upstream, values, job.steps.temperature_S), wanted)
    some = replace(
        job,
        steps=job.steps.select(steps),
        reference=None if job.reference is None else job.reference.select(steps),
        kept={key: raw_SV[steps] for key, raw_SV in job.kept.items()},
    )
    chosen = [{name: value[steps] for name, value in each.items()} for each in (upstream, values)]
    total = _backward(some, policy.select(steps), Slopes.of(chosen[0], chosen[1], some.steps.temperature_S), wanted)
    if total.hidden_SH is not None:
        total.hidden_SH = torch.zeros_like(policy.hidden_SH, dtype=job.wide).index_copy_(0, steps, total.hidden_SH)
    return total


_PLAIN = (Tensor, nn.Parameter, FakeTensor)
"""Tensors that are what they seem, with numbers or, where memory is only counted, without."""


def matmul_type(hidden_SH: Tensor, head: object) -> torch.dtype | None:
    """Type in which ``head(hidden)`` multiplies if that is ``hidden @ weight.T + bias`` and nothing else, or ``None``.

    Adapters, hooks, shards and classes of their own are something else.
    """
    if type(head) is not nn.Linear or "forward" in vars(head):
        return None
    hooks = (head._forward_hooks, head._forward_pre_hooks, head._backward_hooks, head._backward_pre_hooks)
    tensors = [head.weight] if head.bias is None else [head.weight, head.bias]
    if any(hooks) or any(type(tensor) not in _PLAIN for tensor in tensors):
        return None
    device = hidden_SH.device.type
    dtypes = {tensor.dtype for tensor in (hidden_SH, *tensors)}
    if torch.is_autocast_enabled(device) and torch.float64 not in dtypes:
        return torch.get_autocast_dtype(device)
    return dtypes.pop() if len(dtypes) == 1 else None


def tiled_functionals(
    policy: Side,
    steps: Steps,
    order: tuple[str, ...],
    names: frozenset[str],
    reference: Side | None,
    dtype: torch.dtype,
    head_logits: int,
) -> dict[str, Tensor]:
    """Functionals ``order`` of plain linear heads, each [S]; ``log_prob`` and those in ``names`` with gradient.

    Raises:
        IndexError: A step chose what is outside the vocabulary.
    """
    vocabulary = policy.weight_VH.shape[0]
    if bool(((steps.chosen_S < 0) | (steps.chosen_S >= vocabulary)).any()):
        raise IndexError(f"a step chose an id outside the vocabulary of {vocabulary}")
    inputs = (policy.hidden_SH, policy.weight_VH, policy.bias_V)
    learns = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)
    job = HeadJob(
        steps=steps,
        names=order,
        observed=frozenset(order[1:]) - names,
        reference=None if reference is None else reference.to(dtype),
        dtype=dtype,
        wide=torch.promote_types(dtype, torch.float32),
        budget=head_logits,
        keeps=learns,
    )
    if not learns:
        return linear_functionals(job, policy)[0]
    results = LinearFunctionals.apply(*inputs, job)  # type: ignore[no-untyped-call]
    return dict(zip(order, results, strict=True))
