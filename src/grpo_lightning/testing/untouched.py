"""Whether a call changes the tensors that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.functional.ragged import Ragged
from grpo_lightning.testing.check import expect


def tensors_in(value: Any, name: str = "it") -> dict[str, Tensor]:
    """Every tensor in a tensor, a mapping, or a data class such as inputs, rows or requests, by where it is."""
    if isinstance(value, Tensor):
        return {name: value}
    parts: dict[str, Any] = {}
    if isinstance(value, Mapping):
        parts = {f"{name}[{key!r}]": each for key, each in value.items()}
    elif isinstance(value, Ragged) or (is_dataclass(value) and not isinstance(value, type)):
        parts = {f"{name}.{each.name}".removeprefix("it."): getattr(value, each.name) for each in fields(value)}
    return {place: tensor for key, part in parts.items() for place, tensor in tensors_in(part, key).items()}


def expect_untouched(call: Callable[[], object], inputs: Any, what: str) -> None:
    """Expect that a call changes none of the tensors in ``inputs``.

    Args:
        call: What is called, with ``inputs``.
        inputs: A tensor, mapping or data class.
        what: Name of what is called, for the message.
    """
    tensors = tensors_in(inputs)
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    call()
    changed = [name for name, tensor in tensors.items() if not torch.equal(before[name], tensor.detach())]
    expect(
        not changed,
        f"{what} changes none of its inputs: other parts see the same tensors",
        f"it changed {', '.join(changed)}",
        "let every operation make a new tensor: none whose name ends in an underscore, none assigned to a part of an input",
    )
