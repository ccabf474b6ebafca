"""Switching every dropout and every noise of training off, so that train and eval mode compute the same."""

from __future__ import annotations

from typing import Any

from torch import nn

_WORDS = ("dropout", "pdrop", "layerdrop", "drop_path", "jitter")


def _is_probability(name: str, value: Any) -> bool:
    return any(word in name for word in _WORDS) and isinstance(value, float | int) and not isinstance(value, bool)


def disable_in_config(config: Any) -> None:
    """Set every dropout probability of a transformers configuration, nested ones included, to 0."""
    for name, value in list(vars(config).items()):
        if _is_probability(name, value):
            setattr(config, name, 0.0)
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            disable_in_config(value)


def disable_in_modules(model: nn.Module) -> None:
    """Set every dropout probability that a module holds, as a layer or as a number, to 0."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if _is_probability(name, value):
                setattr(module, name, 0.0)
