"""Log-probabilities and other functionals of a step's distribution, in chunks, so that all logits never exist at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from grpo_lightning.functional.linear_head import Side, Steps, matmul_type, tiled_functionals
from grpo_lightning.types import Ragged

FUNCTIONALS = frozenset({"entropy", "sum_of_squares", "exact_kl"})
"""Functionals beside ``log_prob``: ``entropy`` in nats, ``sum_of_squares`` of probabilities, ``exact_kl`` to the reference."""


def restrict(logits_SV: Tensor, support: Ragged | None) -> Tensor:
    """Logits with everything outside each step's support at minus infinity; an empty support means everything."""
    if support is None or support.values.numel() == 0:
        return logits_SV
    lengths_S = support.lengths().to(logits_SV.device)
    steps = torch.repeat_interleave(torch.arange(lengths_S.shape[0], device=logits_SV.device), lengths_S)
    outside_SV = (lengths_S > 0)[:, None].expand(logits_SV.shape).clone()
    outside_SV[steps, support.values.to(logits_SV.device, torch.int64)] = False
    return logits_SV.masked_fill(outside_SV, -torch.inf)


def distribution(logits_SV: Tensor, temperature_S: Tensor, support: Ragged | None) -> Tensor:
    """[S, V]: log-probabilities of ``softmax(logits / temperature)`` on each step's support, in float32 or wider."""
    wide_SV = logits_SV if logits_SV.dtype == torch.float64 else logits_SV.float()
    return torch.log_softmax(restrict(wide_SV / temperature_S[:, None].to(wide_SV), support), dim=-1)


def functionals_of(
    log_probs_SV: Tensor,
    chosen_S: Tensor,
    names: Collection[str],
    reference_SV: Tensor | None = None,
    observed: Collection[str] = (),
) -> dict[str, Tensor]:
    """Functionals of the distributions ``log_probs_SV``, each [S]; those in ``observed`` without gradient.

    ``log_prob`` = log p(chosen); ``entropy`` = -sum_v p log p; ``sum_of_squares`` = sum_v p^2;
    ``exact_kl`` = sum_v p (log p - log q) with q the reference. Entries outside a support add nothing.
    """
    result = {"log_prob": log_probs_SV.gather(-1, chosen_S[:, None]).squeeze(-1)}
    unseen = [name for name in observed if name not in names]
    if unseen:
        with torch.no_grad():
            result |= functionals_of(log_probs_SV.detach(), chosen_S, unseen, reference_SV) | result
    if not names:
        return result
    inside_SV = torch.isfinite(log_probs_SV)
    # Entries outside the support are replaced before they are multiplied: 0 * inf has no value and no gradient.
    finite_SV = log_probs_SV.masked_fill(~inside_SV, 0.0)
    probs_SV = log_probs_SV.exp()
    if "entropy" in names:
        result["entropy"] = -(probs_SV * finite_SV).sum(-1)
    if "sum_of_squares" in names:
        result["sum_of_squares"] = (probs_SV**2).sum(-1)
    if "exact_kl" in names:
        if reference_SV is None:
            raise ValueError("exact_kl needs the reference's distribution")
        result["exact_kl"] = (probs_SV * (finite_SV - reference_SV.masked_fill(~inside_SV, 0.0))).sum(-1)
    return result


HEAD_LOGITS = 1 << 25
"""Logits that exist at once unless said otherwise."""

Head = Callable[[Tensor], Tensor]


def chunked_functionals(
    hidden_SH: Tensor,
    head: Callable[[Tensor], Tensor],
    chosen_S: Tensor,
    temperature_S: Tensor,
    support: Ragged | None,
    names: Collection[str] = (),
    *,
    observed: Collection[str] = (),
    reference_hidden_SH: Tensor | None = None,
    reference_head: Callable[[Tensor], Tensor] | None = None,
    head_logits: int = HEAD_LOGITS,
) -> dict[str, Tensor]:
    """``functionals_of(distribution(head(hidden)))`` without all logits at once, whatever S and V are.

    Plain linear heads run in tiles, with a gradient of their own (:mod:`grpo_lightning.functional.linear_head`). Any
    other head runs on chunks of steps, and again in the backward pass.

    Args:
        hidden_SH: [S, H] hidden states that predict each step.
        head: Hidden states to logits [.., V].
        chosen_S: [S] int64: what each step chose.
        temperature_S: [S].
        support: [S] sequences of ids, or ``None`` for everything.
        names: Functionals wanted beside ``log_prob``.
        observed: Functionals wanted without gradient.
        reference_hidden_SH: [S, H] hidden states of the reference, for ``exact_kl``.
        reference_head: Head of the reference, for ``exact_kl``.
        head_logits: Logits that may exist at once; at least those of a step do where the head is no plain linear one.

    Returns:
        Each functional as [S].

    Raises:
        ValueError: ``exact_kl`` without a reference.
    """
    order = ("log_prob", *sorted({*names, *observed}))
    sides = [(hidden_SH, head)]
    if "exact_kl" in order:
        if reference_hidden_SH is None or reference_head is None:
            raise ValueError("exact_kl needs the reference's hidden states and head")
        sides.append((reference_hidden_SH, reference_head))
    dtypes = {matmul_type(*side) for side in sides}
    dtype = dtypes.pop()
    if dtype is None or dtypes:
        return _by_steps(sides, chosen_S, temperature_S, support, order, names, head_logits)
    policy, *reference = [Side(hidden, of.weight, of.bias) for hidden, of in sides]  # type: ignore[attr-defined]
    steps = Steps.of(chosen_S, temperature_S, support)
    return tiled_functionals(
        policy, steps, order, frozenset(names), reference[0] if reference else None, dtype, head_logits
    )


def _by_steps(
    sides: Sequence[tuple[Tensor, Head]],
    chosen_S: Tensor,
    temperature_S: Tensor,
    support: Ragged | None,
    order: Sequence[str],
    names: Collection[str],
    head_logits: int,
) -> dict[str, Tensor]:
    """The plain path, for any head: ``sides`` are hidden states and head of the policy and, for ``exact_kl``, the reference."""

    def one(start: int, end: int, hidden: Tensor) -> tuple[Tensor, ...]:
        part = None if support is None else support.select(torch.arange(start, end))
        log_probs_SV = distribution(sides[0][1](hidden), temperature_S[start:end], part)
        reference_SV = None
        for reference_hidden_SH, reference_head in sides[1:]:
            with torch.no_grad():
                reference_logits_SV = reference_head(reference_hidden_SH[start:end])
                reference_SV = distribution(reference_logits_SV, temperature_S[start:end], part)
        result = functionals_of(log_probs_SV, chosen_S[start:end], names, reference_SV, order[1:])
        return tuple(result[name] for name in order)

    hidden_SH, head = sides[0]
    with torch.no_grad():
        width = head(hidden_SH[:0]).shape[-1]
    steps, chunk = hidden_SH.shape[0], max(1, head_logits // width)
    parts = []
    for start in range(0, max(steps, 1), chunk):
        end = min(start + chunk, steps)
        if torch.is_grad_enabled() and steps > chunk:
            parts.append(
                checkpoint(one, start, end, hidden_SH[start:end], use_reentrant=False, preserve_rng_state=False)
            )
        else:
            parts.append(one(start, end, hidden_SH[start:end]))
    return {name: torch.cat([part[i] for part in parts]) for i, name in enumerate(order)}
