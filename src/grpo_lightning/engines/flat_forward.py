"""A model's pass over tokens that lie flat, whatever rows they belong to: ids and positions in, logits out."""

from __future__ import annotations

import contextlib
from inspect import signature
from typing import Any, Protocol

import torch
from torch import Tensor

from grpo_lightning.functional.linear import faster_linears
from grpo_lightning.policies.attention import attending


class FlatAttention(Protocol):
    """What each token reads; who may see whom is known to whoever gives the tokens."""

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        """[N, heads, value depth].

        Args:
            layer: Index of the layer that asks.
            query: [N, heads, depth], positions already in it, of one type with ``key`` and ``value``.
            key: [N, key heads, depth]; heads share key heads in order.
            value: [N, key heads, value depth].
            scale: What products are multiplied by.
            window: Tokens that a token may look back on, itself included; ``None`` for all.
        """


class FlatForward(Protocol):
    """A pass over flat tokens."""

    def __call__(self, ids_N: Tensor, position_N: Tensor, last: Tensor | None, attention: FlatAttention) -> Tensor:
        """[N, V] logits, or [len(last), V] of the tokens that ``last`` names, on the model's device.

        Args:
            ids_N: [N] int64.
            position_N: [N] int64: where each token is in its row.
            last: Indices of the tokens whose logits are wanted; ``None`` for all.
            attention: Asked by every layer.
        """

    def rest(self) -> None:
        """Leave the model as it was, until the next pass."""


class ModelForward:
    """The model's own pass.

    Args:
        model: A causal language model of transformers that attends as it is told to.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._keeps_logits = "logits_to_keep" in signature(model.forward).parameters
        self._attention: FlatAttention | None = None
        self._attending: contextlib.ExitStack | None = None

    def __call__(self, ids_N: Tensor, position_N: Tensor, last: Tensor | None, attention: FlatAttention) -> Tensor:
        """See :class:`FlatForward`."""
        self._attention = attention
        if self._attending is None:
            self._attending = contextlib.ExitStack()
            self._attending.enter_context(attending(self._model, self._attend))
        arguments: dict[str, Any] = {"input_ids": ids_N[None], "position_ids": position_N[None]}
        if last is not None and self._keeps_logits:
            arguments["logits_to_keep"] = last
        with faster_linears():
            logits: Tensor = self._model(**arguments, use_cache=False).logits[0]
        return logits if last is None or self._keeps_logits else logits[last]

    def rest(self) -> None:
        """Let the model attend by itself, as others may want it to."""
        if self._attending is not None:
            self._attending.close()
            self._attending = None
        # It belongs to whoever runs this pass, and would keep that, with its keys and values, until Python looks for cycles.
        self._attention = None

    def _attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        assert self._attention is not None
        flat = (each[0].transpose(0, 1) for each in _of_one_type(query, key, value))
        return self._attention(layer, *flat, scale=scale, window=window)[None]


def _of_one_type(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As attention of torch has it: the type of autocast where that is on, else the widest."""
    device = query.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    else:
        dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
    return query.to(dtype), key.to(dtype), value.to(dtype)
