"""Log-probabilities and other functionals of a step's distribution, in chunks, so that all logits never exist at once."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

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
    chunk: int = 1024,
) -> dict[str, Tensor]:
    """``functionals_of(distribution(head(hidden)))`` over chunks of at most ``chunk`` steps.

    Memory for logits is ``chunk * V`` whatever the number of steps: with gradients, a chunk's logits are computed again
    in the backward pass.

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
        chunk: Steps whose logits may exist at once.

    Returns:
        Each functional as [S].
    """

    def one(hidden: Tensor, start: int, end: int) -> tuple[Tensor, ...]:
        part = None if support is None else support.select(torch.arange(start, end))
        log_probs_SV = distribution(head(hidden), temperature_S[start:end], part)
        reference_SV = None
        if reference_hidden_SH is not None and reference_head is not None:
            with torch.no_grad():
                reference_logits = reference_head(reference_hidden_SH[start:end])
                reference_SV = distribution(reference_logits, temperature_S[start:end], part)
        result = functionals_of(log_probs_SV, chosen_S[start:end], names, reference_SV, observed)
        return tuple(result[name] for name in order)

    order = ["log_prob", *sorted({*names, *observed})]
    steps = hidden_SH.shape[0]
    parts = []
    for start in range(0, max(steps, 1), chunk):
        end = min(start + chunk, steps)
        if torch.is_grad_enabled() and steps > chunk:
            parts.append(
                checkpoint(one, hidden_SH[start:end], start, end, use_reentrant=False, preserve_rng_state=False)
            )
        else:
            parts.append(one(hidden_SH[start:end], start, end))
    return {name: torch.cat([part[i] for part in parts]) for i, name in enumerate(order)}
