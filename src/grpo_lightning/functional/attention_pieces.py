"""The pieces of an attention matrix of rows that follow prompts, batched by length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from grpo_lightning.functional.packing import similar_lengths

_SLACK = 8
"""Tokens by which stretches of one call may differ however short they are: a call costs more."""


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
    causal: bool
    """Each token reads its stretch up to itself, and not all of another one."""


@lru_cache(maxsize=4)
def pieces_of(parts: tuple[PromptRows, ...]) -> list[Pieces]:
    """Causal pieces of every token's own stretch, and after them pieces in which rows read all of their prompt.

    Every token is a query of the former once, and every token of a row one of the latter.
    """
    own: list[tuple[int, int]] = []
    prompt_before: dict[int, tuple[int, int]] = {}
    rows_after: dict[int, list[tuple[int, int]]] = {}
    for part in parts:
        own.append((part.start, part.prompt))
        start = part.middle
        for length in part.rows:
            own.append((start, length))
            start += length
        if part.rows:
            prompt_before[part.middle] = (part.start, part.prompt)
            # Keys are not padded: prompts of one length together.
            rows_after.setdefault(part.prompt, []).append((part.middle, part.end - part.middle))
    pieces = [Pieces(stretches, stretches, causal=True) for stretches in map(Stretches, _batches(own))]
    for rows in rows_after.values():
        for batch in _batches(rows):
            prompts = Stretches([prompt_before[start] for start, _ in batch])
            pieces.append(Pieces(Stretches(batch), prompts, causal=False))
    return pieces


def _batches(bounds: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Stretches of about equal length together, each batch in order of the tokens."""
    falling = sorted(bounds, key=lambda each: each[1], reverse=True)
    runs = similar_lengths([length for _, length in falling], slack=_SLACK)
    return [sorted(falling[run]) for run in runs]
