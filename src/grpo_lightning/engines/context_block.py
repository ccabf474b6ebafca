"""Contexts of about equal length side by side, so that the rows of all of them attend in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_lightning.engines.key_values import KeyValues
from grpo_lightning.engines.part_attention import Mask, attend, hiding
from grpo_lightning.functional.packing import similar_lengths


class ContextBlock:
    """Keys and values of contexts, each once however many rows go on from it.

    Args:
        contexts: What they are known by.
        lengths: Their tokens.
    """

    def __init__(self, contexts: Sequence[int], lengths: Sequence[int]) -> None:
        self.contexts, self.lengths = list(contexts), list(lengths)
        self.memory = KeyValues(len(self.contexts), max(self.lengths))

    def keep(self, layer: int, place: int, key: Tensor, value: Tensor) -> None:
        """Keep the keys and values, [L, key heads, depth] each, of the context at ``place``."""
        for memory, new in zip(self.memory.of(layer, key, value), (key, value), strict=True):
            memory[place, : new.shape[0]] = new

    def drop(self, context: int) -> None:
        """Forget a context: the last one takes its place."""
        place, last = self.contexts.index(context), len(self.contexts) - 1
        if place != last:
            self.memory.move(last, place, self.lengths[last])
            self.contexts[place], self.lengths[place] = self.contexts[last], self.lengths[last]
        self.contexts.pop()
        self.lengths.pop()


def blocks(contexts: Sequence[int], lengths: Sequence[int]) -> list[ContextBlock]:
    """Blocks of contexts that are given in order of falling length."""
    return [ContextBlock(contexts[run], lengths[run]) for run in similar_lengths(lengths)]


@dataclass
class BlockRows:
    """The rows that go on from the contexts of one block, as many for each context: some are there twice."""

    block: ContextBlock
    rows: Tensor
    """[contexts, rows of each] int64: rows of the batch."""

    def attend(self, layer: int, query: Tensor, scale: float, mask: Mask | None) -> tuple[Tensor, Tensor]:
        """What rows read from their contexts.

        Args:
            layer: Index of the layer.
            query: [contexts * rows of each, heads, depth].
            scale: What products are multiplied by.
            mask: Of [contexts, 1, 1 or rows of each, length].

        Returns:
            [contexts * rows of each, key heads, heads / key heads, depth], and log-sum-exps without the depth.
        """
        keys, values = self.block.memory.of(layer, query, query)
        count, each = self.rows.shape
        heads = keys.shape[2]
        folded = query.view(count, each, heads, -1, query.shape[-1]).transpose(1, 2).flatten(2, 3)
        if mask is not None and mask.added.shape[2] > 1:
            mask = mask.repeated(folded.shape[2] // each)
        length = max(self.block.lengths)
        keys, values = keys[:count, :length].transpose(1, 2), values[:count, :length].transpose(1, 2)
        output, log_sum = attend(folded, keys, values, scale, mask)
        output = output.reshape(count, heads, each, -1, output.shape[-1]).transpose(1, 2).flatten(0, 1)
        return output, log_sum.reshape(count, heads, each, -1).transpose(1, 2).flatten(0, 1)

    def mask(self, positions: Tensor, window: int | None, like: Tensor) -> Mask | None:
        """What is hidden: the room behind shorter contexts, and what lies before the window of a row.

        Args:
            positions: [rows of the batch] int64: position of the token that each row reads with.
            window: Tokens that a token may look back on, itself included; ``None`` for all.
            like: Type and device of the mask.
        """
        lengths = torch.tensor(self.block.lengths)
        index = torch.arange(int(lengths.max()))
        hidden = (index >= lengths[:, None])[:, None, None, :]
        first = torch.zeros(1, 1, dtype=torch.int64) if window is None else positions[self.rows] - window + 1
        if bool((first > 0).any()):
            hidden = hidden | (index < first[..., None])[:, None]
        return hiding(hidden, like) if bool(hidden.any()) else None
