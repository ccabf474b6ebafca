"""Which rows are decoded now, and which wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

_PASS_TOKENS = 4096
"""Tokens of contexts that come in at once, where others may follow with the next step."""


@dataclass(frozen=True)
class Admitted:
    """Rows of one context that come in."""

    context: int
    rows: list[int]
    more: bool
    """Other rows of the context still wait."""


class Admission:
    """Rows wait in order of their contexts, long ones first, and come in as soon as others have made room.

    No result depends on it, since draws are addressed.

    Args:
        context_Q: [Q] int64: context of each row.
        lengths: Tokens of each context.
        longest: Steps that a row may write.
        batch_rows: Rows that may be in flight.
        cache_tokens: Tokens whose keys and values may be kept; one row comes in however long it is.
        joins: Rows may come in while others are written, and share the keys of their context.
    """

    def __init__(
        self,
        context_Q: Tensor,
        lengths: Sequence[int],
        longest: int,
        *,
        batch_rows: int,
        cache_tokens: int,
        joins: bool,
    ) -> None:
        self._lengths, self._longest, self._joins = lengths, longest, joins
        self._batch_rows, self.cache_tokens = batch_rows, cache_tokens
        self._context_Q: list[int] = context_Q.tolist()
        rows_of: dict[int, list[int]] = {}
        for row, context in enumerate(self._context_Q):
            rows_of.setdefault(context, []).append(row)
        order = sorted(rows_of, key=lambda context: lengths[context], reverse=True)
        self._waiting = [(context, rows_of[context]) for context in reversed(order)]
        self._left = {context: len(rows) for context, rows in rows_of.items()}
        self._kept: set[int] = set()
        self._running = self._used = 0

    @property
    def waits(self) -> bool:
        """Whether anybody has yet to come in."""
        return bool(self._waiting)

    def admit(self) -> list[Admitted]:
        """Who comes in now."""
        admitted: list[Admitted] = []
        if self._running and not self._joins:
            return admitted
        new = 0
        while self._waiting:
            context, rows = self._waiting[-1]
            length = 0 if context in self._kept else self._lengths[context]
            count = min(len(rows), self._room(context))
            if count < 1 or (self._joins and new and new + length > _PASS_TOKENS):
                break
            self._waiting.pop()
            if count < len(rows):
                self._waiting.append((context, rows[count:]))
            admitted.append(Admitted(context, rows[:count], count < len(rows)))
            self._take(context, count)
            new += length
        return admitted

    def _room(self, context: int) -> int:
        """How many rows of ``context`` may come in."""
        free = self.cache_tokens - self._used
        each, once = self._longest, 0
        if not self._joins:
            each += self._lengths[context]
        elif context not in self._kept:
            once = self._lengths[context]
        room = min((free - once) // each, self._batch_rows - self._running)
        return max(room, 0 if self._running else 1)

    def _take(self, context: int, count: int) -> None:
        once = 0 if context in self._kept else self._lengths[context]
        self._kept.add(context)
        self._running += count
        self._used += count * self._longest + (once if self._joins else count * self._lengths[context])

    def ended(self, rows: Sequence[int]) -> None:
        """``rows`` have ended."""
        for row in rows:
            context = self._context_Q[row]
            self._left[context] -= 1
            self._running -= 1
            self._used -= self._longest + (0 if self._joins else self._lengths[context])
            if not self._left[context]:
                self._kept.discard(context)
                self._used -= self._lengths[context] if self._joins else 0
