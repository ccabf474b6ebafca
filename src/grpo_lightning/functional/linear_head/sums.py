"""Functionals of a linear head's distributions and their gradient, without the logits of a batch: tile by tile.

With x = logits / temperature on the support, p = softmax(x), and upstream gradients g of the functionals, the gradient
that a tile of logits gets is

    g_log_prob (chosen - p)  - g_entropy p (log p + entropy)  + 2 g_sum_of_squares p (p - sum_of_squares)
    + g_exact_kl p (log p - log q - exact_kl)

over the temperature. Forward and backward each make a tile's logits, use them in place, and leave what is O(S).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from grpo_lightning.functional.linear_head.tiles import At, Side, Steps, Tiles, lowest


@dataclass(frozen=True)
class HeadJob:
    """What is asked of the distributions of some steps."""

    steps: Steps
    names: tuple[str, ...]
    """Functionals in the order of the results; ``log_prob`` is the first."""
    observed: frozenset[str]
    """Those without gradient."""
    reference: Side | None
    """Hidden states in ``dtype``."""
    dtype: torch.dtype
    """Type of the matmuls."""
    wide: torch.dtype
    """Type of all else: float32 or wider."""
    budget: int
    """Logits that may exist at once."""
    keeps: bool
    """A backward pass will follow: the head's output is kept for it where the budget allows."""
    kept: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """The head's output by side and block of the vocabulary."""
    width: int | None = None
    """Ids of a block, where those kept say so."""

    def keeps_more(self, tiles: Tiles) -> bool:
        """Whether another tile fits the budget, beside four at work."""
        # A narrow matmul on a CPU takes no longer than fresh memory for what it makes.
        pays = self.dtype == self.wide or tiles.device.type != "cpu"
        if not (self.keeps and pays) or len(tiles.parts) > 1:
            return False
        return sum(tensor.numel() for tensor in self.kept.values()) + 5 * tiles.size <= self.budget


@dataclass(frozen=True)
class Tile:
    """The head's output for some steps at some ids."""

    tiles: Tiles
    wide: torch.dtype
    block: int
    ids: slice
    part: slice
    steps: Steps
    weight_VH: Tensor
    sides: Mapping[str, tuple[Tensor, bool]]
    """[S, V] of ``policy`` and maybe ``reference``, and whether it is kept: not to be changed."""

    def chosen(self) -> tuple[Tensor, Tensor]:
        """[S, 1] column of what each step chose, any where it is not in the tile, and [S] whether it is."""
        width = self.ids.stop - self.ids.start
        chosen_S = self.steps.chosen_S - self.ids.start
        return chosen_S.clamp(0, width - 1)[:, None], (chosen_S >= 0) & (chosen_S < width)

    def strips(self) -> Iterator[dict[str, Tensor]]:
        """``tiles.strip`` steps after others: logits over the temperature by side, and ``spare``, all to be used up."""
        height, width = self.sides["policy"][0].shape
        shape = torch.Size((min(self.tiles.strip, height), width))
        spare_SV = self.tiles.buffer("spare strip", shape, self.wide)
        temperature_S = self.steps.temperature_S
        divisors = None if temperature_S is None else torch.split(temperature_S.to(self.wide)[:, None], shape[0])
        pieces = {}
        for name, (raw_SV, kept) in self.sides.items():
            copied = kept or raw_SV.dtype != self.wide
            buffer = self.tiles.buffer(f"{name} strip", shape, self.wide) if copied else None
            pieces[name] = (buffer, torch.split(raw_SV, shape[0]))
        for index in range(-(-height // shape[0])):
            strip = {}
            for name, (buffer, parts) in pieces.items():
                logits_SV = parts[index]
                if buffer is not None:
                    logits_SV = buffer[: logits_SV.shape[0]].copy_(logits_SV)
                strip[name] = logits_SV if divisors is None else logits_SV.div_(divisors[index])
            strip["spare"] = spare_SV[: strip["policy"].shape[0]]
            yield strip


def walk(job: HeadJob, policy: Side, reference: Side | None) -> Iterator[Tile]:
    """Every tile, block after block of the vocabulary: each part of the weight is read once.

    Args:
        job: What for.
        policy: Hidden states in the type of the matmuls.
        reference: The same, or ``None`` where its logits are not needed.
    """
    sides = {"policy": policy} if reference is None else {"policy": policy, "reference": reference}
    vocabulary, device = policy.weight_VH.shape[0], policy.hidden_SH.device
    tiles = Tiles(job.steps, vocabulary, job.budget // 4, device, job.dtype, job.width)
    for block, ids in tiles.blocks():
        weights = {name: tiles.block(side, ids, f"{name} weight") for name, side in sides.items()}
        for index, part in enumerate(tiles.parts):
            made = {}
            for name, side in sides.items():
                raw_SV = job.kept.get((name, block))
                kept = raw_SV is not None or job.keeps_more(tiles)
                if raw_SV is None:
                    raw_SV = tiles.logits(side, weights[name], At(index, block), None if kept else name)
                    if kept:
                        job.kept[name, block] = raw_SV
                made[name] = (raw_SV, kept)
            yield Tile(tiles, job.wide, block, ids, part, tiles.steps[index], weights["policy"][0], made)


Sums = dict[str, Tensor]
"""Of some ids, by step: ``top``, the largest x, and sums over e = exp(u), u = x - top: ``total`` of e, ``entropy`` of e u,
``sum_of_squares`` of e^2, ``exact_kl`` of e (u - w) with w the u of the reference, whose own top and total are there too.
"""


def _strip_sums(logits_SV: Tensor, reference_SV: Tensor | None, names: Collection[str], spare_SV: Tensor) -> Sums:
    """The sums of a strip; the tensors given are used up."""
    result = {}
    top_S = logits_SV.amax(-1, keepdim=True)
    logits_SV.sub_(top_S)
    if reference_SV is not None:
        reference_top_S = reference_SV.amax(-1, keepdim=True)
        reference_SV.sub_(reference_top_S)
        result["reference_top"] = reference_top_S.squeeze(1)
        result["reference_total"] = torch.exp(reference_SV, out=spare_SV).sum(-1)
    powers_SV = torch.exp(logits_SV, out=spare_SV)
    result |= {"top": top_S.squeeze(1), "total": powers_SV.sum(-1)}
    if reference_SV is not None:
        # The difference first: where both are equal it is 0, and not what rounding leaves of two large sums.
        result["exact_kl"] = torch.sub(logits_SV, reference_SV, out=reference_SV).mul_(powers_SV).sum(-1)
    if "entropy" in names:
        result["entropy"] = logits_SV.mul_(powers_SV).sum(-1)
    if "sum_of_squares" in names:
        result["sum_of_squares"] = torch.linalg.vector_norm(powers_SV, dim=-1) ** 2
    return result


def _moved(sums: Sums, top_S: Tensor, reference_top_S: Tensor | None) -> Sums:
    """The sums with u and w measured from other tops."""
    shift_S, total_S = sums["top"] - top_S, sums["total"]
    power_S = shift_S.exp()
    result = {"total": total_S * power_S}
    if "entropy" in sums:
        result["entropy"] = (sums["entropy"] + shift_S * total_S) * power_S
    if "sum_of_squares" in sums:
        result["sum_of_squares"] = sums["sum_of_squares"] * power_S**2
    if reference_top_S is not None:
        reference_shift_S = sums["reference_top"] - reference_top_S
        result["reference_total"] = sums["reference_total"] * reference_shift_S.exp()
        result["exact_kl"] = (sums["exact_kl"] + (shift_S - reference_shift_S) * total_S) * power_S
    return result


def _joined(one: Sums, two: Sums) -> Sums:
    """The sums of two sets of ids, together."""
    tops = {name: torch.maximum(one[name], two[name]) for name in ("top", "reference_top") if name in one}
    moved = [_moved(sums, tops["top"], tops.get("reference_top")) for sums in (one, two)]
    return {name: value + moved[1][name] for name, value in moved[0].items()} | tops


def _sums(job: HeadJob, policy: Side) -> tuple[Tensor, Sums]:
    """x of what each step chose [S], and the sums over the vocabulary."""
    device = policy.hidden_SH.device
    chosen_S = torch.zeros(job.steps.chosen_S.shape[0], dtype=job.wide, device=device)
    parts: dict[int, Sums] = {}
    for tile in walk(job, policy, job.reference):
        column_S, here_S = tile.chosen()
        found_S = tile.sides["policy"][0].gather(1, column_S).squeeze(1).to(job.wide)
        chosen_S[tile.part] = torch.where(here_S, found_S, chosen_S[tile.part])
        strips = [
            _strip_sums(strip["policy"], strip.get("reference"), job.names, strip["spare"]) for strip in tile.strips()
        ]
        sums = {name: torch.cat([strip[name] for strip in strips]) for name in strips[0]}
        before = parts.get(tile.part.start)
        parts[tile.part.start] = sums if before is None else _joined(before, sums)
    # What a support leaves out has no log-probability.
    chosen_S.masked_fill_(chosen_S <= lowest(job.dtype) / 2, -torch.inf)
    if job.steps.temperature_S is not None:
        chosen_S = chosen_S / job.steps.temperature_S.to(job.wide)
    names = next(iter(parts.values()), ())
    return chosen_S, {name: torch.cat([sums[name] for sums in parts.values()]) for name in names}


def _functionals(chosen_S: Tensor, sums: Sums, names: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Each functional [S], and what the backward pass needs of the normalisers."""
    if not sums:
        return {name: chosen_S.clone() for name in names}, {}
    total_S, log_total_S = sums["total"], sums["total"].log()
    result = {"log_prob": (chosen_S - sums["top"]) - log_total_S}
    normalisers = {"top": sums["top"], "log_total": log_total_S}
    if "entropy" in names:
        result["entropy"] = log_total_S - sums["entropy"] / total_S
    if "sum_of_squares" in names:
        result["sum_of_squares"] = sums["sum_of_squares"] / total_S**2
    if "exact_kl" in names:
        other_S = sums["reference_total"].log()
        result["exact_kl"] = sums["exact_kl"] / total_S - (log_total_S - other_S)
        normalisers |= {"reference_top": sums["reference_top"], "reference_log_total": other_S}
    return result, normalisers


def linear_functionals(job: HeadJob, policy: Side) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Functionals ``job.names`` of ``policy``, each [S], without gradient, and the normalisers."""
    with torch.no_grad(), torch.autocast(policy.hidden_SH.device.type, enabled=False):
        result, normalisers = _functionals(*_sums(job, policy.to(job.dtype)), job.names)
    return {name: result[name] for name in job.names}, normalisers
