"""Functionals of a linear head and their gradient from the definitions, dense, in float64."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from grpo_lightning.functional.log_probs import chunked_functionals
from grpo_lightning.types import Ragged

NAMES = ("entropy", "exact_kl", "sum_of_squares")


@dataclass
class HeadCase:
    """A head, that of a reference, and steps."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    other_hidden: Tensor
    other_weight: Tensor
    chosen: Tensor
    temperature: Tensor
    supports: list[list[int]] | None

    @property
    def support(self) -> Ragged | None:
        return None if self.supports is None else Ragged.from_list(self.supports, torch.int32)

    def to(self, dtype: torch.dtype) -> HeadCase:
        moved = {name: value.to(dtype) for name, value in vars(self).items()
                 if isinstance(value, Tensor) and value.is_floating_point() and name != "temperature"}  # fmt: skip
        return replace(self, **moved)

    def head(self) -> nn.Linear:
        head = nn.Linear(*self.weight.shape[::-1], bias=self.bias is not None, dtype=self.weight.dtype)
        with torch.no_grad():
            head.weight.copy_(self.weight)
            if self.bias is not None:
                head.bias.copy_(self.bias)
        return head

    def other_head(self) -> nn.Linear:
        return replace(self, weight=self.other_weight, bias=None).head()


def make_case(
    seed: int,
    steps: int = 7,
    vocabulary: int = 11,
    width: int = 4,
    *,
    bias: bool = False,
    supports: bool = False,
    temperatures: bool = True,
    scale: float = 2.0,
) -> HeadCase:
    """Random, with supports that are empty, of one id, of some and of all."""
    generator, choice = torch.Generator().manual_seed(seed), random.Random(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    chosen = torch.randint(vocabulary, (steps,), generator=generator)
    allowed = []
    for step in range(steps):
        count = (0, 1, 3, vocabulary)[step % 4]
        others = choice.sample(range(vocabulary), count)
        allowed.append(sorted({*others[1:], int(chosen[step])}) if 0 < count < vocabulary else sorted(others))
    return HeadCase(
        hidden=draw(steps, width),
        weight=scale * draw(vocabulary, width),
        bias=draw(vocabulary) if bias else None,
        other_hidden=draw(steps, width),
        other_weight=draw(vocabulary, width),
        chosen=chosen,
        temperature=0.5 + torch.rand(steps, generator=generator) if temperatures else torch.ones(steps),
        supports=allowed if supports else None,
    )


def log_softmax(case: HeadCase, logits: Tensor) -> Tensor:
    """On the supports; outside them minus infinity."""
    scaled = logits / case.temperature.double()[:, None]
    for step, ids in enumerate(case.supports or []):
        if ids:
            outside = torch.ones(logits.shape[1], dtype=torch.bool)
            outside[ids] = False
            scaled[step, outside] = -torch.inf
    shifted = scaled - scaled.max(1, keepdim=True).values
    return shifted - shifted.exp().sum(1, keepdim=True).log()


def dense(case: HeadCase, upstream: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Values of all functionals, and what ``upstream`` gives hidden states, weight and bias."""
    bias = 0.0 if case.bias is None else case.bias
    log_p = log_softmax(case, case.hidden @ case.weight.T + bias)
    log_q = log_softmax(case, case.other_hidden @ case.other_weight.T)
    p = log_p.exp()
    inside = log_p.isfinite()
    log_p, log_q = torch.where(inside, log_p, 0.0), torch.where(inside, log_q, 0.0)
    steps = torch.arange(p.shape[0])
    values = {
        "log_prob": log_p[steps, case.chosen],
        "entropy": -(p * log_p).sum(1),
        "sum_of_squares": (p * p).sum(1),
        "exact_kl": (p * (log_p - log_q)).sum(1),
    }
    one = torch.zeros_like(p)
    one[steps, case.chosen] = 1.0
    slopes = {
        "log_prob": one - p,
        "entropy": -p * (log_p + values["entropy"][:, None]),
        "sum_of_squares": 2 * p * (p - values["sum_of_squares"][:, None]),
        "exact_kl": p * (log_p - log_q - values["exact_kl"][:, None]),
    }
    total = sum((upstream[name][:, None] * slopes[name] for name in upstream), torch.zeros_like(p))
    total = total / case.temperature.double()[:, None]
    gradients = {"hidden": total @ case.weight, "weight": total.T @ case.hidden, "bias": total.sum(0)}
    return values, gradients


def tiled(
    case: HeadCase,
    upstream: dict[str, Tensor],
    head_logits: int,
    frozen: tuple[str, ...] = (),
    head: nn.Linear | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The same from the library, functionals that ``upstream`` lacks observed; no gradient of what is ``frozen``."""
    head = head or case.head()
    inputs = {"hidden": case.hidden.clone(), "weight": head.weight}
    if case.bias is not None:
        inputs["bias"] = head.bias
    for name, tensor in inputs.items():
        tensor.requires_grad_(name not in frozen)
    values = chunked_functionals(
        inputs["hidden"],
        head,
        case.chosen,
        case.temperature,
        case.support,
        [name for name in NAMES if name in upstream],
        observed=NAMES,
        reference_hidden_SH=case.other_hidden,
        reference_head=case.other_head(),
        head_logits=head_logits,
    )
    learned = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    names = [name for name in values if name in upstream]
    found = torch.autograd.grad(
        [values[name] for name in names], list(learned.values()), [upstream[name].to(values[name]) for name in names]
    )
    return {name: value.detach() for name, value in values.items()}, dict(zip(learned, found, strict=True))


def draw_upstream(names: tuple[str, ...], steps: int, seed: int = 5) -> dict[str, Tensor]:
    """Random upstream gradients by functional."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(steps, generator=generator, dtype=torch.float64) for name in names}


def relative(found: Tensor, wanted: Tensor) -> float:
    """Relative distance in L2; absolute where nothing is wanted."""
    return float((found.double() - wanted).norm() / wanted.norm().clamp(min=1e-3)) if wanted.numel() else 0.0
