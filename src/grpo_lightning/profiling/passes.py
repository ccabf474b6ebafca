"""Counts of a pass through a model of transformers."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from grpo_lightning.functional.operations import (
    ModelSize,
    backward_operations,
    forward_operations,
    head_backward_operations,
    head_operations,
    model_size,
)
from grpo_lightning.profiling.measuring import active, count

_sizes: WeakKeyDictionary[nn.Module, ModelSize] = WeakKeyDictionary()


def size_of(model: Any) -> ModelSize:
    """The size of a causal language model of transformers, counted once."""
    if model not in _sizes:
        _sizes[model] = model_size(model, model.get_output_embeddings())
    return _sizes[model]


def count_body(
    model: Any,
    lengths_Q: Tensor,
    past_Q: Tensor | None = None,
    *,
    padding: int = 0,
    duplicated: int = 0,
    recomputed: bool = False,
) -> None:
    """A pass through the layers below the head; nothing happens where nobody measures.

    Args:
        model: The causal language model, head included.
        lengths_Q: [Q] int64: positions of each sequence that runs, padding included.
        past_Q: [Q] int64: positions before them whose keys are read; none by default.
        padding: Positions, of all of them, that hold no token.
        duplicated: Tokens, of all of them, of prompts that ran before in this pass.
        recomputed: The backward pass will run the layers again.
    """
    if not active():
        return
    size, lengths_Q = size_of(model), lengths_Q.cpu()
    past_Q = torch.zeros_like(lengths_Q) if past_Q is None else past_Q.cpu()
    operations, positions = forward_operations(size, lengths_Q, past_Q), int(lengths_Q.sum())
    count(
        positions=positions,
        tokens=positions - padding,
        duplicated=duplicated,
        operations=operations,
        backward=backward_operations(size, lengths_Q, past_Q),
        recomputed=operations if recomputed else 0,
    )


def count_head(model: Any, steps: int, *, recomputed: bool = False) -> None:
    """The logits of ``steps`` positions; nothing happens where nobody measures.

    Args:
        model: The causal language model.
        steps: Positions.
        recomputed: The backward pass will compute them again.
    """
    if not active():
        return
    size = size_of(model)
    operations = head_operations(size, steps)
    count(
        operations=operations,
        backward=head_backward_operations(size, steps),
        recomputed=operations if recomputed else 0,
    )
