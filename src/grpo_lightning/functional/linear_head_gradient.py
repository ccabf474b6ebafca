"""Gradient of a linear head's functionals, tile by tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import override

from grpo_lightning.functional.head_tiles import Side, Steps
from grpo_lightning.functional.linear_head import HeadJob, linear_functionals, walk


@dataclass(frozen=True)
class Slopes:
    """By step: what a tile's gradient is made of, upstream gradients and normalisers in it already.

    The gradient is ``chosen`` at what was chosen, plus exp(x - top) times
    ``constant + log_prob * log p + log_ratio * (log p - log q) + prob * exp(x - top)``.
    """

    top_S: Tensor
    log_total_S: Tensor
    chosen_S: Tensor
    constant_S: Tensor
    log_prob_S: Tensor | None = None
    prob_S: Tensor | None = None
    log_ratio_S: Tensor | None = None
    reference_top_S: Tensor | None = None
    reference_log_total_S: Tensor | None = None

    @staticmethod
    def of(upstream: Mapping[str, Tensor], values: Mapping[str, Tensor], temperature_S: Tensor | None) -> Slopes:
        """From upstream gradients by functional, and the functionals and normalisers."""
        inverse_S = torch.ones_like(values["top"]) if temperature_S is None else 1 / temperature_S.to(values["top"])
        scale_S = inverse_S * torch.exp(-values["log_total"])
        given = {name: value.to(scale_S.dtype) for name, value in upstream.items()}
        chosen_S = given["log_prob"] * inverse_S if "log_prob" in given else torch.zeros_like(scale_S)
        constant_S = -chosen_S * torch.exp(-values["log_total"])
        slopes = {}
        if "entropy" in given:
            slopes["log_prob_S"] = -given["entropy"] * scale_S
            constant_S = constant_S - given["entropy"] * values["entropy"] * scale_S
        if "sum_of_squares" in given:
            twice_S = 2 * given["sum_of_squares"] * scale_S
            slopes["prob_S"] = twice_S * torch.exp(-values["log_total"])
            constant_S = constant_S - twice_S * values["sum_of_squares"]
        if "exact_kl" in given:
            slopes["log_ratio_S"] = given["exact_kl"] * scale_S
            slopes["reference_top_S"] = values["reference_top"]
            slopes["reference_log_total_S"] = values["reference_log_total"]
            constant_S = constant_S - given["exact_kl"] * values["exact_kl"] * scale_S
        return Slopes(values["top"], values["log_total"], chosen_S, constant_S, **slopes)

    def part(self, part: slice) -> Slopes:
        """Of some steps."""
        return Slopes(**{name: None if value is None else value[part] for name, value in vars(self).items()})

    def gradient(self, logits_SV: Tensor, reference_SV: Tensor | None, spare_SV: Tensor) -> Tensor:
        """The tile's gradient but for what was chosen, in ``spare_SV`` or ``logits_SV``; all tensors given are used up."""
        logits_SV.sub_(self.top_S[:, None])
        if self.log_prob_S is None and self.prob_S is None and self.log_ratio_S is None:
            return logits_SV.exp_().mul_(self.constant_S[:, None])
        powers_SV = torch.exp(logits_SV, out=spare_SV)
        logits_SV.sub_(self.log_total_S[:, None])
        if self.log_ratio_S is not None and reference_SV is not None:
            assert self.reference_top_S is not None
            assert self.reference_log_total_S is not None
            reference_SV.sub_(self.reference_top_S[:, None]).sub_(self.reference_log_total_S[:, None])
            torch.sub(logits_SV, reference_SV, out=reference_SV)
        if self.log_prob_S is None:
            logits_SV.copy_(self.constant_S[:, None].expand_as(logits_SV))
        else:
            logits_SV.mul_(self.log_prob_S[:, None]).add_(self.constant_S[:, None])
        if self.log_ratio_S is not None and reference_SV is not None:
            logits_SV.addcmul_(reference_SV, self.log_ratio_S[:, None])
        if self.prob_S is not None:
            logits_SV.addcmul_(powers_SV, self.prob_S[:, None])
        return powers_SV.mul_(logits_SV)


def _add_product(total: Tensor, left: Tensor, right: Tensor, *, first: bool) -> None:
    """``total += left @ right``; the first time, what ``total`` held is forgotten."""
    if total.dtype == left.dtype:
        if first:
            torch.mm(left, right, out=total)
        else:
            total.addmm_(left, right)
    elif first:
        total.copy_(left @ right)
    else:
        total.add_(left @ right)


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

    def add(self, tile_SV: Tensor, hidden_SH: Tensor, weight_VH: Tensor, part: slice, ids: slice) -> None:
        """What a tile's gradient, in the type of the matmul, adds."""
        if self.hidden_SH is not None:
            _add_product(self.hidden_SH[part], tile_SV, weight_VH, first=ids.start == 0)
        if self.weight_VH is not None:
            _add_product(self.weight_VH[ids], tile_SV.t(), hidden_SH, first=part.start == 0)


def _backward(job: HeadJob, policy: Side, slopes: Slopes, wanted: tuple[bool, bool, bool]) -> Gradients:
    total = Gradients.of(policy, job.wide, wanted)
    policy = policy.to(job.dtype)
    if policy.hidden_SH.shape[0] == 0 and total.weight_VH is not None:
        total.weight_VH.zero_()
    for tile in walk(job, policy, None if slopes.log_ratio_S is None else job.reference):
        raw_SV, kept = tile.sides["policy"]
        slope_SV = tile.tiles.buffer("slope", raw_SV.shape, job.dtype) if kept else raw_SV
        column_S, here_S = tile.chosen()
        here = slopes.part(tile.part)
        at_chosen_S = torch.where(here_S, here.chosen_S, 0)[:, None]
        for rows, strip in tile.strips():
            slope = here.part(rows).gradient(strip["policy"], strip.get("reference"), strip["spare"])
            slope.scatter_add_(1, column_S[rows], at_chosen_S[rows])
            if total.bias_V is not None:
                total.bias_V[tile.ids] += slope.sum(0)
            slope_SV[rows] = slope
        total.add(slope_SV, policy.hidden_SH[tile.part], tile.weight_VH, tile.part, tile.ids)
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
    @once_differentiable  # type: ignore[untyped-decorator]
    @override
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
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


def matmul_type(hidden_SH: Tensor, head: object) -> torch.dtype | None:
    """Type in which ``head(hidden)`` multiplies if that is ``hidden @ weight.T + bias`` and nothing else, or ``None``.

    Adapters, hooks, shards and classes of their own are something else.
    """
    if type(head) is not nn.Linear or "forward" in vars(head):
        return None
    hooks = (head._forward_hooks, head._forward_pre_hooks, head._backward_hooks, head._backward_pre_hooks)
    tensors = [head.weight] if head.bias is None else [head.weight, head.bias]
    if any(hooks) or any(type(tensor) not in (Tensor, nn.Parameter) for tensor in tensors):
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
    """Functionals ``order`` of plain linear heads, each [S]; ``log_prob`` and those in ``names`` with gradient."""
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
    return dict(zip(order, LinearFunctionals.apply(*inputs, job), strict=True))
