"""What can be taken for granted of a model, found out by trying."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def head_is_apart(model: Any, ids: Tensor) -> bool:
    """Whether logits are the head's output at the last hidden states, and nothing else.

    Hidden states are magnified at the head's door, so that logits of a hundred come out: what bends large logits (soft
    capping) is next to nothing at the small ones of a fresh model, and would show only as training goes on.

    Args:
        model: A causal language model of transformers.
        ids: [rows, width] int64.
    """
    head, seen = model.get_output_embeddings(), []

    def magnify(module: Any, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden, *rest = arguments
        largest = nn.functional.linear(hidden, module.weight).abs().max().clamp(min=torch.finfo(hidden.dtype).tiny)
        seen.extend([hidden, hidden * (100.0 / largest)])
        return seen[-1], *rest

    handle = head.register_forward_pre_hook(magnify)
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    finally:
        handle.remove()
    if len(seen) != 2:
        return False
    plain = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    pairs = [(plain, seen[0], 1e-4), (logits, head(seen[1]), 1e-2)]
    return all(torch.allclose(one.double(), two.double(), rtol=1e-3, atol=atol) for one, two, atol in pairs)


def keeps_rows_apart(model: Any, ids: Tensor) -> bool:
    """Whether two rows that are packed have the logits that they have in a batch, and the second knows nothing of the first.

    The latter is asked by changing the first row, which must not show beyond rounding: at the small logits of a fresh
    model, what leaks from row to row (through a convolution, say) is far below what the layout itself rounds differently.

    Args:
        model: A causal language model of transformers.
        ids: [2, width] int64.
    """
    rows, width = ids.shape
    vocabulary = model.config.get_text_config().vocab_size
    positions = torch.arange(width, device=ids.device).repeat(rows)[None]

    def packed(first: Tensor) -> Tensor:
        together = torch.cat([first, ids[1]])[None]
        logits: Tensor = model(input_ids=together, position_ids=positions, use_cache=False).logits[0]
        return logits

    plain = model(input_ids=ids, use_cache=False).logits.flatten(0, 1)
    together, changed = packed(ids[0]), packed((ids[0] + 1) % vocabulary)
    rounding = 4 * torch.finfo(plain.dtype).eps * plain.abs().max()
    leaks = (together - changed)[width:].abs().max() > rounding
    differs = (together - plain).abs().max() > torch.maximum(rounding, 1e-3 * plain.abs().max())
    return not bool(leaks or differs)
