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

from grpo_lightning.functional.head_tiles import LARGEST_TILE, TILES_AT_ONCE, Side, Steps, Tiles


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

    @property
    def tile(self) -> int:
        """Logits of a tile; a few tiles exist beside those kept."""
        return max(1, min(LARGEST_TILE, self.budget // TILES_AT_ONCE))

    def spare(self) -> int:
        """Logits that may still be kept."""
        return self.budget - TILES_AT_ONCE * self.tile - sum(tensor.numel() for tensor in self.kept.values())


@dataclass(frozen=True)
class Tile:
    """Logits of some steps at some ids, over the temperature and on the support; the tensors may be used up."""

    tiles: Tiles
    block: int
    ids: slice
    part: slice
    weight_VH: Tensor
    logits_SV: Tensor
    reference_SV: Tensor | None
    chosen_S: Tensor
    """[S, 1] where in the tile what was chosen is, or anywhere."""
    has_chosen_S: Tensor

    def spare(self) -> Tensor:
        """[S, V] holding anything."""
        return self.tiles.buffer("spare", self.logits_SV.shape, self.tiles.wide)


def walk(job: HeadJob, policy: Side, *, reference: Side | None) -> Iterator[Tile]:
    """Every tile, block after block of the vocabulary: each part of the weight is read once.

    Args:
        job: What for.
        policy: Hidden states in the type of the matmuls.
        reference: The same, or ``None`` where its logits are not needed.
    """
    sides = {"policy": policy} if reference is None else {"policy": policy, "reference": reference}
    vocabulary, device = policy.weight_VH.shape[0], policy.hidden_SH.device
    tiles = Tiles(job.steps, vocabulary, job.tile, device, job.dtype, job.wide, job.width)
    for block, ids in tiles.blocks():
        weights = {name: side.block(ids) for name, side in sides.items()}
        for index, part in enumerate(tiles.parts):
            made = {}
            for name, side in sides.items():
                raw_SV = job.kept.get((name, block))
                if raw_SV is None:
                    keep = job.keeps and len(tiles.parts) == 1 and job.spare() >= tiles.size
                    raw_SV = tiles.raw(side.hidden_SH[part], *weights[name], None if keep else name)
                    if keep:
                        job.kept[name, block] = raw_SV
                made[name] = tiles.logits(raw_SV, index, block, name)
            width = ids.stop - ids.start
            chosen_S = tiles.steps[index].chosen_S - ids.start
            has_chosen_S = (chosen_S >= 0) & (chosen_S < width)
            yield Tile(
                tiles, block, ids, part, weights["policy"][0], made["policy"], made.get("reference"),
                chosen_S.clamp(0, width - 1)[:, None], has_chosen_S,
            )  # fmt: skip


def _tile_sums(
    logits_SV: Tensor, reference_SV: Tensor | None, names: Collection[str], spare_SV: Tensor
) -> list[Tensor]:
    """Of a tile, by step: largest x, sum of e = exp(x - largest), the same of the reference, and what ``names`` need.

    The tensors given are used up.
    """
    top_S = logits_SV.amax(-1)
    logits_SV.sub_(top_S[:, None])
    result = [top_S]
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
    for tile in walk(job, policy, reference=job.reference):
        found_S = tile.logits_SV.gather(1, tile.chosen_S).squeeze(1)
        chosen_S[tile.part] = torch.where(tile.has_chosen_S, found_S, chosen_S[tile.part])
        values = _tile_sums(tile.logits_SV, tile.reference_SV, job.names, tile.spare())
        for label, value in zip(labels, values, strict=True):
            if tile.part.start == 0:
                sums[label].append([])
            sums[label][-1].append(value)
    empty = chosen_S.new_zeros(1, 0)
    joined = {
        label: torch.stack([torch.cat(block) for block in blocks]) if blocks else empty
        for label, blocks in sums.items()
    }
    return {**joined, "chosen": chosen_S}


def _share(top: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the sums of blocks: largest x and log of the sum of exp(x - largest) [S], and log of each block's share [blocks, S]."""
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
