"""Our own attention inside a model of transformers: who may attend to what is decided outside the model, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

NAME = "grpo_lightning"
"""The attention implementation that a model's configuration names while ours is used."""


class AttentionRefusedError(RuntimeError):
    """The model asks for an attention that ours does not compute."""


class Attention(Protocol):
    """Attention between tokens that lie flat: a batch of one sequence, whatever rows the tokens belong to."""

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        """[1, N, heads, depth]: what each token reads.

        Args:
            layer: Index of the layer that asks.
            query: [1, heads, N, depth], positions already in it.
            key: [1, key heads, N, depth]; heads share key heads in order, ``heads / key heads`` each.
            value: [1, key heads, N, value depth].
            scale: What products are multiplied by.
            window: Tokens that a token may look back on, itself included; ``None`` for all.
        """


@dataclass(frozen=True)
class Installed:
    """An attention, and the configurations by which a model finds it."""

    attention: Attention
    configs: tuple[Any, ...]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the model attend by it. May be entered again, in backward passes too."""
        _register()
        before = [config._attn_implementation for config in self.configs]
        token = _current.set(self)
        try:
            for config in self.configs:
                config._attn_implementation = NAME
            yield
        finally:
            _current.reset(token)
            for config, implementation in zip(self.configs, before, strict=True):
                config._attn_implementation = implementation


_current: ContextVar[Installed | None] = ContextVar("grpo_lightning_attention", default=None)


def installed() -> Installed | None:
    """The attention that is in use here."""
    return _current.get()


@contextmanager
def attending(model: Any, attention: Attention) -> Iterator[None]:
    """Let ``model`` attend by ``attention``; give it ``[1, N]`` ids and positions, no mask and no cache.

    Raises:
        AttentionRefusedError: If the model never asks, or adds something of its own to attention (soft caps, sinks, biases by
            distance).
    """
    asked = False

    def ask(*arguments: Any, **named: Any) -> Tensor:
        nonlocal asked
        asked = True
        return attention(*arguments, **named)

    with Installed(ask, _configs(model)).active():
        yield
    if not asked:
        raise AttentionRefusedError(f"{type(model).__name__} attends in a way of its own")


_found: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()


def _configs(model: Any) -> tuple[Any, ...]:
    """The configurations of a model's parts, looked for once."""
    if model not in _found:
        configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
        _found[model] = tuple(configs.values())
    return _found[model]


_KNOWN = {"dropout", "is_causal", "position_ids", "use_cache", "output_attentions", "output_hidden_states", "return_dict",
          "cache_position", "logits_to_keep", "output_router_logits"}  # fmt: skip
"""Arguments that say nothing which ours does not do anyway."""


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    unknown = sorted(name for name, given in more.items() if name not in _KNOWN and given is not None)
    if unknown or attention_mask is not None or not getattr(module, "is_causal", True):
        raise AttentionRefusedError(f"{type(module).__name__} asks for attention with {', '.join(unknown) or 'a mask'}")
    if query.shape[0] != 1 or query.shape[2] != key.shape[2]:
        raise AttentionRefusedError(f"{type(module).__name__} does not attend between the tokens of one flat sequence")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    here = installed()
    assert here is not None
    output = here.attention(module.layer_idx, query, key, value, scale=scale, window=sliding_window)
    return output, None


@cache
def _register() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    # No mask function goes with it, so the model makes no mask.
    ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
