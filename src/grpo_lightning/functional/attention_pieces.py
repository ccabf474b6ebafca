"""The pieces of an attention matrix of rows that follow prompts, batched by length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

_WIDEST = 1.34
"""How much longer than the shortest the longest of a batch may be."""
_SLACK = 8
"""Tokens that it may be longer whatever the ratio is: a call costs more."""


@dataclass(frozen=True)
class PromptRows:
    """A prompt and the rows that follow it, flat: the prompt's tokens, then each row's, one row after the other."""

    start: int
    """Index of the first token of the prompt."""
    prompt: int
    """Tokens of the prompt, at least 1."""
    rows: tuple[int, ...]
    """Tokens of each row that has any."""

    @property
    def middle(self) -> int:
        """Index of the first token after the prompt."""
        return self.start + self.prompt

    @property
    def end(self) -> int:
        """Index after the last token."""
        return self.middle + sum(self.rows)


class Stretches:
    """Stretches of flat tokens side by side, [B, W]; those that are shorter than the longest are padded behind.

    Args:
        bounds: First token and length of each.
    """

    def __init__(self, bounds: Sequence[tuple[int, int]]) -> None:
        first, width = bounds[0][0], max(length for _, length in bounds)
        self.shape = (len(bounds), width)
        adjacent = all(bound == (first + index * width, width) for index, bound in enumerate(bounds))
        self._span = slice(first, first + len(bounds) * width) if adjacent else None
        starts, lengths = torch.tensor(bounds).unbind(1)
        offset = torch.arange(width)
        # What pads a stretch is its last token once more, so that it is a number like any other.
        self._index = (starts[:, None] + torch.minimum(offset, lengths[:, None] - 1)).flatten()
        inside = offset < lengths[:, None]
        self._padding = None if bool(inside.all()) else ~inside
        self._places = inside.flatten().nonzero().squeeze(1)
        self._tokens = self._index[self._places]

    def take(self, flat: Tensor, *, padding: float | None = None) -> Tensor:
        """[B, heads, W, ...] of [N, heads, ...]; ``padding`` is what is put where a stretch is padded."""
        taken = flat[self._span] if self._span is not None else flat.index_select(0, self._index)
        taken = self._side_by_side(taken)
        if padding is not None and self._padding is not None:
            taken[self._padding] = padding
        return taken.transpose(1, 2)

    def put(self, flat: Tensor, taken: Tensor) -> None:
        """Write [B, heads, W, ...] to where it belongs."""
        if self._span is not None:
            self._side_by_side(flat[self._span]).copy_(taken.transpose(1, 2))
        else:
            flat.index_copy_(0, self._tokens, self._unpadded(taken).to(flat.dtype))

    def add(self, flat: Tensor, taken: Tensor) -> None:
        """Add [B, heads, W, ...] to what is where it belongs."""
        if self._span is not None:
            self._side_by_side(flat[self._span]).add_(taken.transpose(1, 2))
        else:
            flat.index_add_(0, self._tokens, self._unpadded(taken).to(flat.dtype))

    def _side_by_side(self, rows: Tensor) -> Tensor:
        """[B, W, ...] of [B * W, ...]; a view."""
        return rows.view(*self.shape, *rows.shape[1:])

    def _unpadded(self, taken: Tensor) -> Tensor:
        rows = taken.transpose(1, 2).flatten(0, 1)
        return rows if self._padding is None else rows.index_select(0, self._places)


@dataclass(frozen=True)
class Pieces:
    """Pieces of the attention matrix that are computed in one call."""

    queries: Stretches
    keys: Stretches


@lru_cache(maxsize=4)
def pieces_of(parts: tuple[PromptRows, ...]) -> tuple[list[Pieces], list[Pieces]]:
    """Pieces in which every token reads its own stretch up to itself, and pieces in which rows read all of their prompt.

    Every token is a query of the former once, and every token of a row one of the latter.
    """
    own: list[tuple[int, int]] = []
    across: dict[int, list[tuple[PromptRows, int]]] = {}
    for part in parts:
        own.append((part.start, part.prompt))
        start = part.middle
        for length in part.rows:
            own.append((start, length))
            start += length
        if part.rows:
            # Keys are not padded: prompts of one length together.
            across.setdefault(part.prompt, []).append((part, part.end - part.middle))
    causal = [Pieces(stretches, stretches) for stretches in map(Stretches, _batches(own))]
    reading = []
    for group in across.values():
        by_start = {part.middle: part for part, _ in group}
        for batch in _batches([(part.middle, length) for part, length in group]):
            prompts = [(by_start[start].start, by_start[start].prompt) for start, _ in batch]
            reading.append(Pieces(Stretches(batch), Stretches(prompts)))
    return causal, reading


def _batches(bounds: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Stretches of about equal length together, each batch in order of the tokens."""
    batches: list[list[tuple[int, int]]] = []
    for bound in sorted(bounds, key=lambda each: each[1], reverse=True):
        longest = batches[-1][0][1] if batches else 0
        if not batches or longest > max(_WIDEST * bound[1], bound[1] + _SLACK):
            batches.append([])
        batches[-1].append(bound)
    return [sorted(batch) for batch in batches]
