"""Rows that are decoded together on flat tokens: no padding, no mask where none binds, a context's keys never repeated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.engines.admission import Admitted
from grpo_lightning.engines.context_block import BlockRows, ContextBlock, blocks
from grpo_lightning.engines.flat_forward import FlatForward
from grpo_lightning.engines.key_values import KeyValues
from grpo_lightning.engines.part_attention import Mask, attend, attend_before, hiding, merged
from grpo_lightning.types import Ragged


class FlatBatch:
    """Rows in flight. A pass of the model runs the next token of each and the whole of every context that comes in.

    A row's attention has two parts, which are put together by their log-sum-exps: over its context, whose keys all its rows
    share, and over what it wrote itself, which lies in memory of its own.

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
        self._written_R: list[int] = []
        self._waiting: dict[int, Tensor] = {}
        self._rows_of_blocks = _RowsOfBlocks([], [], torch.device("cpu"))
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
            self._written_R += [0] * len(each.rows)
        if not admitted:
            return logits
        self._make_room()
        self._blocks += new_blocks
        self._regroup()
        return torch.cat(parts)

    def _make_room(self) -> None:
        rows = len(self._context_R)
        if self._own is None:
            self._own = KeyValues(rows, self._longest)
        elif rows > self._own.places:
            self._own.grow(max(rows, self._own.places * 3 // 2))

    def _regroup(self) -> None:
        self._rows_of_blocks = _RowsOfBlocks(self._blocks, self._context_R, self._device)

    def keep(self, alive: Sequence[bool]) -> list[int]:
        """Let go of the rows that have ended; returns the rows left in their new order, by their old places."""
        order = list(range(len(alive)))
        for place in reversed([place for place, going in enumerate(alive) if not going]):
            last = len(order) - 1
            if place != last:
                if self._own is not None and self._written_R[last]:
                    self._own.move(last, place, self._written_R[last])
                order[place] = order[last]
                self._context_R[place], self._written_R[place] = self._context_R[last], self._written_R[last]
            order.pop()
            self._context_R.pop()
            self._written_R.pop()
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
        at_R = torch.tensor(self._written_R, dtype=torch.int64)
        positions.append(
            at_R + torch.tensor([self._lengths[context] for context in self._context_R], dtype=torch.int64)
        )
        for _, _, context in new:
            ids.append(self._contexts[context].to(torch.int64))
            positions.append(torch.arange(self._lengths[context]))
            last.append((last[-1] if last else -1) + self._lengths[context])
        self._pass = _Pass(self._written_R, new, self._device, positions[0], self._rows_of_blocks.parts)
        index = torch.tensor(last, device=self._device) if new else None
        ids_N, position_N = (torch.cat(each).to(self._device) for each in (ids, positions))
        logits = self._forward(ids_N, position_N, index, self._attend)
        self._written_R = [written + 1 for written in self._written_R]
        return logits

    def _attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        rows = len(self._pass.written)
        if not self._pass.new:
            return self._attend_rows(layer, query, key, value, scale, window)
        parts = []
        if rows:
            parts.append(self._attend_rows(layer, query[:rows], key[:rows], value[:rows], scale, window))
        start = rows
        for block, place, context in self._pass.new:
            inside = slice(start, start + self._lengths[context])
            block.keep(layer, place, key[inside], value[inside])
            read = attend_before(_whole(query[inside]), _whole(key[inside]), _whole(value[inside]), scale, window)
            parts.append(read[0].transpose(0, 1))
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
        shared = self._rows_of_blocks.attend(layer, query, scale, self._pass.block_masks(window, query))
        return merged(shared, own).flatten(1, 2)


class _RowsOfBlocks:
    """Which rows read from which block, and the ways there and back."""

    def __init__(self, all_blocks: Sequence[ContextBlock], context_R: Sequence[int], device: torch.device) -> None:
        rows_of: dict[int, list[int]] = {}
        for row, context in enumerate(context_R):
            rows_of.setdefault(context, []).append(row)
        self.parts: list[BlockRows] = []
        there: list[int] = []
        for block in all_blocks:
            most = max((len(rows_of.get(context, ())) for context in block.contexts), default=0)
            if most:
                # A context with fewer rows, or none at the moment, fills up with a row that is there anyway.
                padded = [(rows_of.get(context, [0]) * most)[:most] for context in block.contexts]
                self.parts.append(BlockRows(block, torch.tensor(padded)))
                there += [row for rows in padded for row in rows]
        back = [0] * len(context_R)
        contexts = [
            context for part in self.parts for context in part.block.contexts for _ in range(part.rows.shape[1])
        ]
        for place, (row, context) in enumerate(zip(there, contexts, strict=True)):
            if context_R[row] == context:
                back[row] = place
        straight = there == list(range(len(context_R)))
        self._there = None if straight else torch.tensor(there, device=device)
        self._back = None if straight else torch.tensor(back, device=device)

    def attend(self, layer: int, query: Tensor, scale: float, masks: Sequence[Mask | None]) -> tuple[Tensor, Tensor]:
        """[rows, key heads, heads / key heads, depth] and log-sum-exps: what rows [rows, heads, depth] read."""
        query = query if self._there is None else query.index_select(0, self._there)
        found, start = [], 0
        for part, mask in zip(self.parts, masks, strict=True):
            count = part.rows.numel()
            found.append(part.attend(layer, query[start : start + count], scale, mask))
            start += count
        output, log_sum = found[0]
        if len(found) > 1:
            output, log_sum = torch.cat([each for each, _ in found]), torch.cat([each for _, each in found])
        if self._back is not None:
            output, log_sum = output.index_select(0, self._back), log_sum.index_select(0, self._back)
        return output, log_sum


class _Pass:
    """What the layers of one pass of the model share."""

    def __init__(
        self,
        written: Sequence[int],
        new: Sequence[tuple[ContextBlock, int, int]],
        device: torch.device,
        positions: Tensor,
        parts: Sequence[BlockRows],
    ) -> None:
        self.written, self.new, self.positions, self._parts = list(written), new, positions, parts
        self.width = max(written, default=0) + 1
        self._same = len(set(written)) <= 1
        self._at = torch.tensor(self.written, device=device)
        self._rows = torch.arange(len(self.written), device=device)
        self._own_masks: dict[int | None, Mask | None] = {}
        self._block_masks: dict[int | None, list[Mask | None]] = {}

    def write(self, memory: Tensor, new: Tensor) -> None:
        """Keep [rows, key heads, depth] where each row is."""
        if self._same:
            memory[: new.shape[0], self.width - 1] = new
        else:
            memory[self._rows, self._at] = new

    def own_mask(self, window: int | None, like: Tensor) -> Mask | None:
        """Of [rows, 1, 1, width]: what was not written yet, and what lies before the window."""
        if window not in self._own_masks:
            at, index = torch.tensor(self.written)[:, None], torch.arange(self.width)
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


def _whole(flat: Tensor) -> Tensor:
    """[1, heads, N, depth] of [N, heads, depth]."""
    return flat.transpose(0, 1)[None]
