"""What rows read from the contexts that they share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.engines.context_block import BlockRows, ContextBlock
from grpo_lightning.engines.part_attention import Mask


class RowsOfBlocks:
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
