"""Floating point operations of a transformer, from its weights and the lengths of what runs through it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class AttentionSize:
    """One attention layer."""

    heads: int
    depth: int
    """Width of a head's queries and keys."""
    value_depth: int
    """Width of a head's values."""
    window: int | None = None
    """Keys that a query may read, its own included; ``None`` for all before it."""


@dataclass(frozen=True)
class ModelSize:
    """What of a transformer decides how many operations it takes. Weights are those of matrices that a token multiplies."""

    body_weights: int
    """Below the head; of experts, those that one token meets."""
    body_trained: int
    """Those of ``body_weights`` that have a gradient."""
    head_weights: int
    head_trained: int
    attention: tuple[AttentionSize, ...]


def keys_read(lengths_Q: Tensor, past_Q: Tensor, window: int | None = None) -> int:
    """Pairs of query and key: the sum over sequences and their queries i = 0 .. n-1 of ``min(past + i + 1, window)``.

    Args:
        lengths_Q: [Q] int64: queries of each sequence.
        past_Q: [Q] int64: keys before its first query.
        window: Keys that a query may read, its own included; ``None`` for all.

    Example:
        >>> from grpo_lightning.functional.operations import keys_read
        >>> keys_read(torch.tensor([3]), torch.tensor([10]))
        36
    """
    whole_Q = lengths_Q if window is None else torch.minimum((window - past_Q).clamp(min=0), lengths_Q)
    pairs = whole_Q * past_Q + whole_Q * (whole_Q + 1) // 2
    return int(pairs.sum()) + (window or 0) * int((lengths_Q - whole_Q).sum())


def forward_operations(size: ModelSize, lengths_Q: Tensor, past_Q: Tensor) -> int:
    """``2 * weights * tokens + sum over layers of 2 * heads * (depth + value depth) * pairs``, the head left out.

    With equal depths a layer's attention is ``4 * heads * depth * pairs``. Additions count, elementwise work does not.

    Args:
        size: The model.
        lengths_Q: [Q] int64: positions of each sequence that run.
        past_Q: [Q] int64: positions before them whose keys are read from a cache.
    """
    return 2 * size.body_weights * int(lengths_Q.sum()) + _attention(size, lengths_Q, past_Q)


def backward_operations(size: ModelSize, lengths_Q: Tensor, past_Q: Tensor) -> int:
    """Twice :func:`forward_operations` where all weights are trained; a frozen matrix has no gradient of its own.

    ``2 * (weights + trained weights) * tokens`` and twice the forward's attention. What a backward pass computes again
    is not in it.
    """
    linear = 2 * (size.body_weights + size.body_trained) * int(lengths_Q.sum())
    return linear + 2 * _attention(size, lengths_Q, past_Q)


def head_operations(size: ModelSize, steps: int) -> int:
    """``2 * V * H * steps``."""
    return 2 * size.head_weights * steps


def head_backward_operations(size: ModelSize, steps: int) -> int:
    """``4 * V * H * steps`` where the head is trained, half of it where it is frozen."""
    return 2 * (size.head_weights + size.head_trained) * steps


def model_size(model: nn.Module, head: nn.Module | None) -> ModelSize:
    """The size of a model of transformers: weights counted from its modules, attention from its attention modules.

    Matrices are the weights of linear and convolution layers, routers and experts; embeddings are looked up and cost
    nothing.

    Args:
        model: The model.
        head: Its output layer, counted apart; ``None`` if it has none.
    """
    inside = set() if head is None else set(head.modules())
    body = [part for module in model.modules() if module not in inside for part in _matrices(model, module)]
    tops = [part for module in inside for part in _matrices(model, module)]
    return ModelSize(
        body_weights=sum(count for count, _ in body),
        body_trained=sum(count for count, trained in body if trained),
        head_weights=sum(count for count, _ in tops),
        head_trained=sum(count for count, trained in tops if trained),
        attention=tuple(_attention_size(module) for module in model.modules() if _attends(module)),
    )


def _attention(size: ModelSize, lengths_Q: Tensor, past_Q: Tensor) -> int:
    pairs = {window: keys_read(lengths_Q, past_Q, window) for window in {layer.window for layer in size.attention}}
    return sum(2 * layer.heads * (layer.depth + layer.value_depth) * pairs[layer.window] for layer in size.attention)


def _matrices(model: nn.Module, module: Any) -> Iterator[tuple[int, bool]]:
    """Weights of a module that one token is multiplied with, and whether they are trained."""
    experts = getattr(module, "num_experts", None)
    for weight in module.parameters(recurse=False):
        if experts and weight.dim() == 3 and weight.shape[0] == experts:
            config: Any = getattr(module, "config", None) or getattr(model, "config", None)
            yield weight.numel() // experts * int(config.get_text_config().num_experts_per_tok), weight.requires_grad
        elif weight.dim() >= 2 and not isinstance(module, nn.Embedding):
            yield weight.numel(), weight.requires_grad


def _attends(module: nn.Module) -> bool:
    return hasattr(module, "layer_idx") and hasattr(module, "head_dim") and "Attention" in type(module).__name__


def _attention_size(module: Any) -> AttentionSize:
    heads = getattr(module, "num_heads", None) or module.config.num_attention_heads
    depth = getattr(module, "qk_head_dim", None) or module.head_dim
    return AttentionSize(
        int(heads),
        int(depth),
        int(getattr(module, "v_head_dim", None) or depth),
        _window(module),
    )


def _window(module: Any) -> int | None:
    if hasattr(module, "sliding_window"):
        return module.sliding_window  # type: ignore[no-any-return]
    config: Any = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    slides = kinds is None or kinds[module.layer_idx] == "sliding_attention"
    return getattr(config, "sliding_window", None) if slides else None
