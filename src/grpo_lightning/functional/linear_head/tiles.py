"""Logits of a linear head in tiles of some steps by some of the vocabulary, in buffers that are used again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from grpo_lightning.types import Ragged

LARGEST_TILE = 1 << 21
"""Logits of a tile: enough to keep a matmul busy."""
LARGEST_STRIP = 1 << 17
"""Logits of a strip for each thread of a CPU: few enough to stay in a core's cache from one pass to the next."""
LARGEST_ELSEWHERE = 1 << 24
"""Logits of tile and strip where there is no such cache, and each operation costs a launch."""
LARGEST_STEPS = 2048
"""Steps of a tile: more would make a matmul no faster, and a tile too narrow."""
OUTSIDE = -1e30
"""Logit outside a support: its probability is 0 as at minus infinity, and 0 times it is 0."""


def lowest(dtype: torch.dtype) -> float:
    """``OUTSIDE``, or the lowest number that ``dtype`` has."""
    return max(OUTSIDE, torch.finfo(dtype).min)


@dataclass(frozen=True)
class Side:
    """Hidden states and the head that they meet: the policy's or the reference's."""

    hidden_SH: Tensor
    weight_VH: Tensor
    bias_V: Tensor | None

    def to(self, dtype: torch.dtype) -> Side:
        """With hidden states in ``dtype``; the weight is converted tile by tile, so that no second one exists."""
        return Side(self.hidden_SH.detach().to(dtype), self.weight_VH.detach(), self.bias_V)

    def select(self, steps: Tensor) -> Side:
        """Of the steps ``steps``."""
        return Side(self.hidden_SH[steps], self.weight_VH, self.bias_V)


@dataclass(frozen=True)
class Steps:
    """Some steps: what each chose, what its logits are divided by and restricted to."""

    chosen_S: Tensor
    temperature_S: Tensor | None
    """``None`` for 1 everywhere."""
    support: Ragged | None

    @staticmethod
    def of(chosen_S: Tensor, temperature_S: Tensor, support: Ragged | None) -> Steps:
        """Temperatures and supports that change nothing are left out."""
        plain = bool((temperature_S == 1).all())
        narrow = support is not None and support.values.numel() > 0
        return Steps(chosen_S, None if plain else temperature_S, support if narrow else None)

    def select(self, steps: Tensor) -> Steps:
        """Of the steps ``steps``."""
        return Steps(
            self.chosen_S[steps],
            None if self.temperature_S is None else self.temperature_S[steps],
            None if self.support is None else self.support.select(steps.to("cpu")),
        )


class Restriction:
    """What a support leaves of each tile of some steps."""

    def __init__(self, support: Ragged, bounds: list[int], device: torch.device) -> None:
        lengths_S = support.lengths()
        steps = torch.repeat_interleave(torch.arange(len(support)), lengths_S)
        ids, order = support.values.to("cpu", torch.int64).sort()
        self.restricted = (lengths_S > 0).nonzero().squeeze(1).to(device)
        self.ids, self.steps = ids.to(device), steps[order].to(device)
        self.cuts = torch.searchsorted(ids, torch.tensor(bounds)).tolist()

    def apply(self, logits_SV: Tensor, block: int, start: int) -> None:
        """Put all that is outside the support far down, in place; the tile is the ``block``-th, from id ``start`` on."""
        part = slice(self.cuts[block], self.cuts[block + 1])
        steps, ids = self.steps[part], self.ids[part] - start
        inside = logits_SV[steps, ids]
        logits_SV.index_fill_(0, self.restricted, lowest(logits_SV.dtype))
        logits_SV[steps, ids] = inside


@dataclass(frozen=True)
class At:
    """Where a tile is: the index of its steps and of its block of the vocabulary."""

    part: int
    block: int


class Tiles:
    """The tiles of [S, V], and the buffers that they pass through.

    Args:
        steps: All steps.
        vocabulary: V.
        limit: Logits that a tile may have at most.
        device: Where.
        dtype: Type of the matmul.
        width: Ids of a block; by default as many as the limit allows.
    """

    def __init__(
        self,
        steps: Steps,
        vocabulary: int,
        limit: int,
        device: torch.device,
        dtype: torch.dtype,
        width: int | None = None,
    ) -> None:
        count = steps.chosen_S.shape[0]
        cached = device.type == "cpu"
        limit = max(1, min(limit, LARGEST_TILE if cached else LARGEST_ELSEWHERE))
        height = max(1, min(count, LARGEST_STEPS, limit))
        if width is None:
            width = max(1, min(vocabulary, limit // height))
            width -= width % 64 if width > 64 else 0
        strip = LARGEST_STRIP * torch.get_num_threads() if cached else LARGEST_ELSEWHERE
        self.strip = max(1, strip // width)
        """Steps of a strip."""
        self.bounds = [*range(0, vocabulary, width), vocabulary]
        self.parts = [slice(start, min(start + height, count)) for start in range(0, count, height)]
        whole = len(self.parts) == 1
        self.steps = [steps if whole else steps.select(torch.arange(count)[part].to(device)) for part in self.parts]
        self.restrictions = [
            None if one.support is None else Restriction(one.support, self.bounds, device) for one in self.steps
        ]
        self.size, self.device, self.dtype = height * width, device, dtype
        self.buffers: dict[str, Tensor] = {}

    def blocks(self) -> Iterator[tuple[int, slice]]:
        """Which ids each block of the vocabulary has."""
        return enumerate(slice(start, end) for start, end in pairwise(self.bounds))

    def buffer(self, name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """The buffer ``name``, of the shape ``shape``, holding anything."""
        kept = self.buffers.get(name)
        if kept is None or kept.numel() < shape.numel():
            kept = self.buffers[name] = torch.empty(shape.numel(), dtype=dtype, device=self.device)
        return kept[: shape.numel()].view(shape)

    def block(self, side: Side, ids: slice, name: str) -> tuple[Tensor, Tensor | None]:
        """Weight, in the buffer ``name``, and bias of some ids in the type of the matmul."""
        weight_VH = side.weight_VH[ids]
        if weight_VH.dtype != self.dtype:
            weight_VH = self.buffer(name, weight_VH.shape, self.dtype).copy_(weight_VH)
        if side.bias_V is None:
            return weight_VH, None
        # A bias of minus infinity forbids an id: as a finite number it does so without 0 * inf.
        return weight_VH, side.bias_V[ids].detach().clamp(min=lowest(self.dtype)).to(self.dtype)

    def logits(self, side: Side, weights: tuple[Tensor, Tensor | None], at: At, name: str | None) -> Tensor:
        """The head's output for a tile, on the support, in the type of the matmul.

        It is in the buffer ``name`` or, without one, in memory of its own.
        """
        weight_VH, bias_V = weights
        hidden_SH = side.hidden_SH[self.parts[at.part]]
        shape = torch.Size((hidden_SH.shape[0], weight_VH.shape[0]))
        if name is None:
            out = torch.empty(shape, dtype=self.dtype, device=self.device)
        else:
            out = self.buffer(name, shape, self.dtype)
        if bias_V is None:
            torch.mm(hidden_SH, weight_VH.t(), out=out)
        else:
            torch.addmm(bias_V, hidden_SH, weight_VH.t(), out=out)
        if self.dtype == torch.float16:
            out.clamp_(min=lowest(self.dtype))
        restriction = self.restrictions[at.part]
        if restriction is not None:
            restriction.apply(out, at.block, self.bounds[at.block])
        return out
