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

from grpo_lightning.functional.head_tiles import At, Side, Steps, Tiles


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


def _strip_sums(
    logits_SV: Tensor, reference_SV: Tensor | None, names: Collection[str], spare_SV: Tensor
) -> list[Tensor]:
    """Of a strip, by step: largest x, sum of e = exp(x - largest), the same of the reference, and what ``names`` need.

    The tensors given are used up.
    """
    top_S = logits_SV.amax(-1, keepdim=True)
    logits_SV.sub_(top_S)
    result = [top_S.squeeze(1)]
    reference_sums = []
    if reference_SV is not None:
        reference_top_S = reference_SV.amax(-1)
        reference_SV.sub_(reference_top_S[:, None])
        reference_sums = [reference_top_S, torch.exp(reference_SV, out=spare_SV).sum(-1)]
    powers_SV = torch.exp(logits_SV, out=spare_SV)
    total_S = powers_SV.sum(-1)
    result += [total_S, *reference_sums]
    if reference_SV is not None:
        # The difference first: where both are equal it is 0, and not what rounding leaves of two large sums.
        result.append(torch.sub(logits_SV, reference_SV, out=reference_SV).mul_(powers_SV).sum(-1) / total_S)
    if "entropy" in names:
        result.append(logits_SV.mul_(powers_SV).sum(-1) / total_S)
    if "sum_of_squares" in names:
        result.append((torch.linalg.vector_norm(powers_SV, dim=-1) / total_S) ** 2)
    return result


def _sums(job: HeadJob, policy: Side) -> dict[str, Tensor]:
    """The sums of each tile as [blocks, S], and ``chosen`` [S]: x of what each step chose."""
    labels = ["top", "total"]
    if job.reference is not None:
        labels += ["reference_top", "reference_total", "exact_kl"]
    labels += [name for name in ("entropy", "sum_of_squares") if name in job.names]
    count, device = job.steps.chosen_S.shape[0], policy.hidden_SH.device
    sums: dict[str, list[list[Tensor]]] = {label: [] for label in labels}
    chosen_S = torch.zeros(count, dtype=job.wide, device=device)
    for tile in walk(job, policy, job.reference):
        column_S, here_S = tile.chosen()
        found_S = tile.sides["policy"][0].gather(1, column_S).squeeze(1).to(job.wide)
        chosen_S[tile.part] = torch.where(here_S, found_S, chosen_S[tile.part])
        if tile.part.start == 0:
            for blocks in sums.values():
                blocks.append([])
        for strip in tile.strips():
            values = _strip_sums(strip["policy"], strip.get("reference"), job.names, strip["spare"])
            for blocks, value in zip(sums.values(), values, strict=True):
                blocks[-1].append(value)
    if job.steps.temperature_S is not None:
        chosen_S = chosen_S / job.steps.temperature_S.to(job.wide)
    empty = chosen_S.new_zeros(1, 0)
    joined = {
        label: torch.stack([torch.cat(block) for block in blocks]) if blocks else empty
        for label, blocks in sums.items()
    }
    return {**joined, "chosen": chosen_S}


def _share(top: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the sums of blocks: largest x and log of the sum of exp(x - largest), both [S]; log of each block's share."""
    top_S = top.amax(0)
    log_blocks = (top - top_S).add_(total.log())
    log_total_S = ((top - top_S).exp() * total).sum(0).log()
    return top_S, log_total_S, log_blocks - log_total_S


def _functionals(sums: Mapping[str, Tensor], names: Collection[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Each functional [S], and what the backward pass needs of the normalisers."""
    top_S, log_total_S, log_share = _share(sums["top"], sums["total"])
    share = log_share.exp()
    result = {"log_prob": (sums["chosen"] - top_S) - log_total_S}
    normalisers = {"top": top_S, "log_total": log_total_S}
    log_total = sums["total"].log()
    if "entropy" in names:
        result["entropy"] = -(share * (sums["entropy"] - log_total + log_share)).sum(0)
    if "sum_of_squares" in names:
        result["sum_of_squares"] = (share**2 * sums["sum_of_squares"]).sum(0)
    if "exact_kl" in names:
        other_top_S, other_log_total_S, other_log_share = _share(sums["reference_top"], sums["reference_total"])
        within = sums["exact_kl"] - (log_total - sums["reference_total"].log())
        result["exact_kl"] = (share * (within + (log_share - other_log_share))).sum(0)
        normalisers |= {"reference_top": other_top_S, "reference_log_total": other_log_total_S}
    return result, normalisers


def linear_functionals(job: HeadJob, policy: Side) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Functionals ``job.names`` of ``policy``, each [S], without gradient, and the normalisers."""
    with torch.no_grad(), torch.autocast(policy.hidden_SH.device.type, enabled=False):
        result, normalisers = _functionals(_sums(job, policy.to(job.dtype)), job.names)
    return {name: result[name] for name in job.names}, normalisers
