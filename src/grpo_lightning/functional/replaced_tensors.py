"""Putting other tensors in the places of a module's own."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


def replace_tensors(module: nn.Module, replacement: Callable[[str, Tensor], Tensor]) -> None:
    """Put ``replacement(name, tensor)`` where each parameter and buffer is, in the order of the modules.

    It is asked once about a tensor that several modules share, by the first name, and what it gives is shared like it. For a
    parameter it gives a parameter.
    """
    made: dict[int, Tensor] = {}
    replaced = []  # kept until the end, so that no two have one identity
    for prefix, part in module.named_modules():
        for own in (part._parameters, part._buffers):
            for name, each in own.items():
                if each is None:
                    continue
                if id(each) not in made:
                    replaced.append(each)
                    made[id(each)] = replacement(f"{prefix}.{name}" if prefix else name, each)
                own[name] = made[id(each)]
