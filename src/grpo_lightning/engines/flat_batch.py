"""Rows that are decoded together on flat tokens: no padding, no mask where none binds, a context's keys never repeated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.engines.admission import Admitted
from grpo_lightning.engines.context_block import BlockRows, ContextBlock, blocks
from grpo_lightning.engines.flat_forward import FlatForward
from grpo_lightning.engines.key_values import KeyValues
from grpo_lightning.engines.own_contexts import with_contexts
from grpo_lightning.engines.part_attention import Mask, attend, attend_before, hiding, merged
from grpo_lightning.engines.rows_of_blocks import RowsOfBlocks
from grpo_lightning.types import Ragged

_COPIED = 1024
"""Tokens of contexts that rows may get for themselves: reading so many keys once a row costs less than a second attention,
the way to it and back, and putting both together."""


class FlatBatch:
    """Rows in flight. A pass of the model runs the next token of each and the whole of every context that comes in.

    A row's attention has two parts, which are put together by their log-sum-exps: over its context, whose keys all its rows
    share, and over what it wrote itself, which lies in memory of its own. When nobody else is to come in and the rows that
    are left are few, each gets its context's keys into its own memory, and attends once.

    Args:
        forward: A pass of the model.
        contexts: What rows continue.
        device: Where the model is.
        longest: Steps that a row may write; the last one is not run.
    """

    joins = True
    """Rows may come in while others are written."""

    def __init__(self, forward: FlatForward, contexts: Ragged, device: torch.device, longest: int) -> None:
        self._forward, self._contexts, self._device = forward, contexts, device
        self._longest = max(1, longest - 1)
        self._lengths: list[int] = contexts.lengths().tolist()
        self._blocks: list[ContextBlock] = []
        self._own: KeyValues | None = None
        self._context_R: list[int] = []
        # Tokens in each row's own memory, and the position of the first of them.
        self._kept_R: list[int] = []
        self._start_R: list[int] = []
        self._room: int | None = None
        self._waiting: dict[int, Tensor] = {}
        self._rows_of_blocks = RowsOfBlocks([], [], torch.device("cpu"))
        self._pass = _Pass([], [], torch.device("cpu"), torch.zeros(0, dtype=torch.int64), [])

    def advance(self, tokens: Sequence[int], admitted: Sequence[Admitted]) -> Tensor:
        """Write a token of each row and let rows come in; [rows, V] logits of the next one, new rows last.

        Args:
            tokens: One for each row in flight.
            admitted: Who comes in.
        """
        fresh = [each.context for each in admitted if each.context not in self._waiting]
        new_blocks = blocks(fresh, [self._lengths[context] for context in fresh])
        count, parts = len(tokens), []
        if tokens or fresh:
            logits = self._run(tokens, new_blocks)
            parts.append(logits[:count])
            self._waiting.update(zip(fresh, logits[count:], strict=True))
        for each in admitted:
            first_V = self._waiting.pop(each.context)
            parts.append(first_V.expand(len(each.rows), -1))
            if each.more:
                self._waiting[each.context] = first_V.clone()
            self._context_R += [each.context] * len(each.rows)
            self._kept_R += [0] * len(each.rows)
            self._start_R += [self._lengths[each.context]] * len(each.rows)
        if not admitted:
            return logits
        self._make_room()
        self._blocks += new_blocks
        self._regroup()
        return torch.cat(parts)

    def settle(self, room: int) -> None:
        """Nobody comes in but with the next step; keys of ``room`` tokens may be kept."""
        self._room = room

    def _make_room(self) -> None:
        rows = len(self._context_R)
        if self._own is None:
            self._own = KeyValues(rows, self._longest)
        elif rows > self._own.places:
            self._own.grow(max(rows, self._own.places * 3 // 2))

    def _regroup(self) -> None:
        if self._room is not None and self._blocks:
            self._give_contexts(self._room)
        self._rows_of_blocks = RowsOfBlocks(self._blocks, self._context_R, self._device)

    def _give_contexts(self, room: int) -> None:
        """Give each row its context's keys, if that is little."""
        rows = len(self._context_R)
        if not rows or rows * max(self._start_R) > min(_COPIED, room - rows * self._longest):
            return
        assert self._own is not None
        self._own = with_contexts(self._own, self._blocks, self._context_R, self._kept_R, self._longest)
        self._kept_R = [start + kept for start, kept in zip(self._start_R, self._kept_R, strict=True)]
        self._start_R, self._blocks = [0] * rows, []

    def keep(self, alive: Sequence[bool]) -> list[int]:
        """Let go of the rows that have ended; returns the rows left in their new order, by their old places."""
        order = list(range(len(alive)))
        for place in reversed([place for place, going in enumerate(alive) if not going]):
            last = len(order) - 1
            if place != last:
                if self._own is not None and self._kept_R[last]:
                    self._own.move(last, place, self._kept_R[last])
                order[place] = order[last]
                for of_rows in (self._context_R, self._kept_R, self._start_R):
                    of_rows[place] = of_rows[last]
            order.pop()
            for of_rows in (self._context_R, self._kept_R, self._start_R):
                of_rows.pop()
        if len(order) < len(alive):
            self._drop_contexts()
            self._regroup()
        return order

    def rest(self) -> None:
        """Leave the model as it was, until the next step."""
        self._forward.rest()

    def _drop_contexts(self) -> None:
        needed = {*self._context_R, *self._waiting}
        for block in self._blocks:
            for context in [context for context in block.contexts if context not in needed]:
                block.drop(context)
        self._blocks = [block for block in self._blocks if block.contexts]

    def _run(self, tokens: Sequence[int], new_blocks: Sequence[ContextBlock]) -> Tensor:
        """[rows + new contexts, V]: logits at the last token of each."""
        new = [(block, place, context) for block in new_blocks for place, context in enumerate(block.contexts)]
        ids, positions, last = [torch.tensor(tokens, dtype=torch.int64)], [], list(range(len(tokens)))
        positions.append(torch.tensor(self._start_R, dtype=torch.int64) + torch.tensor(self._kept_R, dtype=torch.int64))
        for _, _, context in new:
            ids.append(self._contexts[context].to(torch.int64))
            positions.append(torch.arange(self._lengths[context]))
            last.append((last[-1] if last else -1) + self._lengths[context])
        self._pass = _Pass(self._kept_R, new, self._device, positions[0], self._rows_of_blocks.parts)
        index = torch.tensor(last, device=self._device) if new else None
        ids_N, position_N = (torch.cat(each).to(self._device) for each in (ids, positions))
        logits = self._forward(ids_N, position_N, index, self._attend)
        self._kept_R = [kept + 1 for kept in self._kept_R]
        return logits

    def _attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        rows = len(self._pass.kept)
        if not self._pass.new:
            return self._attend_rows(layer, query, key, value, scale, window)
        parts = []
        if rows:
            parts.append(self._attend_rows(layer, query[:rows], key[:rows], value[:rows], scale, window))
        start = rows
        for block, place, context in self._pass.new:
            inside = slice(start, start + self._lengths[context])
            block.keep(layer, place, key[inside], value[inside])
            parts.append(attend_before(query[inside], key[inside], value[inside], scale, window))
            start = inside.stop
        return torch.cat(parts)

    def _attend_rows(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None
    ) -> Tensor:
        """[rows, heads, value depth]."""
        assert self._own is not None
        memory = self._own.of(layer, key, value)
        for kept, new in zip(memory, (key, value), strict=True):
            self._pass.write(kept, new)
        rows, width = query.shape[0], self._pass.width
        keys, values = (kept[:rows, :width].transpose(1, 2) for kept in memory)
        folded = query.view(rows, key.shape[1], -1, query.shape[-1])
        own = attend(folded, keys, values, scale, self._pass.own_mask(window, query))
        if not self._rows_of_blocks.parts:
            return own[0].flatten(1, 2)
        shared = self._rows_of_blocks.attend(layer, query, scale, self._pass.block_masks(window, query))
        return merged(shared, own).flatten(1, 2)


class _Pass:
    """What the layers of one pass of the model share."""

    def __init__(
        self,
        kept: Sequence[int],
        new: Sequence[tuple[ContextBlock, int, int]],
        device: torch.device,
        positions: Tensor,
        parts: Sequence[BlockRows],
    ) -> None:
        self.kept, self.new, self.positions, self._parts = list(kept), new, positions, parts
        self.width = max(kept, default=0) + 1
        self._same = len(set(kept)) <= 1
        self._at = torch.tensor(self.kept, device=device)
        self._rows = torch.arange(len(self.kept), device=device)
        self._own_masks: dict[int | None, Mask | None] = {}
        self._block_masks: dict[int | None, list[Mask | None]] = {}

    def write(self, memory: Tensor, new: Tensor) -> None:
        """Keep [rows, key heads, depth] where each row is."""
        if self._same:
            memory[: new.shape[0], self.width - 1] = new
        else:
            memory[self._rows, self._at] = new

    def own_mask(self, window: int | None, like: Tensor) -> Mask | None:
        """Of [rows, 1, 1, width]: what is not there yet, and what lies before the window."""
        if window not in self._own_masks:
            at, index = torch.tensor(self.kept)[:, None], torch.arange(self.width)
            hidden = index > at
            if window is not None and window < self.width:
                hidden |= index <= at - window
            self._own_masks[window] = hiding(hidden[:, None, None], like) if bool(hidden.any()) else None
        return self._own_masks[window]

    def block_masks(self, window: int | None, like: Tensor) -> list[Mask | None]:
        """The mask of each block."""
        if window not in self._block_masks:
            self._block_masks[window] = [part.mask(self.positions, window, like) for part in self._parts]
        return self._block_masks[window]
