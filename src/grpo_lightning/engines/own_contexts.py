"""Rows that get the keys of their contexts for themselves."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpo_lightning.engines.context_block import ContextBlock
from grpo_lightning.engines.key_values import KeyValues


def with_contexts(
    own: KeyValues, blocks: Sequence[ContextBlock], context_R: Sequence[int], kept_R: Sequence[int], longest: int
) -> KeyValues:
    """Memory of rows that begins with their contexts.

    Args:
        own: What rows have kept by themselves.
        blocks: Where the contexts are.
        context_R: Context of each row.
        kept_R: Tokens that each row has kept.
        longest: Tokens that a row may keep besides its context.
    """
    lengths = {
        context: length for block in blocks for context, length in zip(block.contexts, block.lengths, strict=True)
    }
    result = KeyValues(len(context_R), max(lengths[context] for context in context_R) + longest)
    for block in blocks:
        rows = [row for row, context in enumerate(context_R) if context in block.contexts]
        places = [block.contexts.index(context_R[row]) for row in rows]
        if rows:
            result.put(block.memory, torch.tensor(places), torch.tensor(rows), max(block.lengths))
    for row, (context, kept) in enumerate(zip(context_R, kept_R, strict=True)):
        if kept:
            result.append(own, row, lengths[context], kept)
    return result
