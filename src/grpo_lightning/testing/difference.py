"""Where two values differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

_PLAIN = (int, str, bytes, complex, type(None), Enum, frozenset, set, type, torch.dtype, torch.device)


def difference(left: Any, right: Any, where: str = "it") -> str | None:
    """The first place in which two values differ, in words; ``None`` if they are equal.

    Tensors and arrays are equal bit by bit, NaN equals NaN, a list equals a tuple of the same entries, and objects are
    equal if their types and public attributes are. What has no attributes and no equality of its own (a lock, say) counts
    as equal to another of its type.

    Args:
        left: One value.
        right: The other.
        where: What it is called in the answer.

    Example:
        >>> difference({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}, "state")
        "state['a'][1] is 2.0 and 3.0"
    """
    return _difference(left, right, where, frozenset())


def _difference(left: Any, right: Any, where: str, above: frozenset[int]) -> str | None:
    if left is right or id(left) in above:
        return None
    if isinstance(left, Tensor | np.ndarray):
        return None if _same_array(left, right) else _told(left, right, where)
    if isinstance(left, float) and isinstance(right, float):
        same = left == right or (math.isnan(left) and math.isnan(right))
        return None if same else _told(left, right, where)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _of_mappings(left, right, where, above | {id(left)})
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return f"{where} has {len(left)} and {len(right)} entries"
        inside = above | {id(left)}
        found = (_difference(a, b, f"{where}[{i}]", inside) for i, (a, b) in enumerate(zip(left, right, strict=True)))
        return next((each for each in found if each), None)
    if isinstance(left, _PLAIN) or isinstance(right, _PLAIN):
        return None if type(left) is type(right) and left == right else _told(left, right, where)
    return _of_objects(left, right, where, above | {id(left)})


def _of_mappings(left: Mapping[Any, Any], right: Mapping[Any, Any], where: str, above: frozenset[int]) -> str | None:
    for key in [*left, *right]:
        if key not in left or key not in right:
            return f"{where}[{key!r}] is in {'one' if key in left else 'the other'} only"
    found = (_difference(left[key], right[key], f"{where}[{key!r}]", above) for key in left)
    return next((each for each in found if each), None)


def _of_objects(left: Any, right: Any, where: str, above: frozenset[int]) -> str | None:
    if type(left) is not type(right):
        return _told(left, right, where)
    if getattr(type(left), "__eq__", None) is not getattr(object, "__eq__", None):
        try:
            if bool(left == right):
                return None
        except (TypeError, ValueError, RuntimeError):  # one that compares entry by entry
            pass
        if not (hasattr(left, "__dict__") or is_dataclass(left)):
            return _told(left, right, where)
    if callable(left) and hasattr(left, "__qualname__"):
        name = (left.__module__, left.__qualname__)
        return None if name == (right.__module__, right.__qualname__) else _told(left, right, where)
    return _of_mappings(public(left), public(right), where, above)


def public(item: Any) -> dict[str, Any]:
    """The attributes of an object that have no underscore in front."""
    names = [each.name for each in fields(item)] if is_dataclass(item) else [*getattr(item, "__dict__", ())]
    return {name: getattr(item, name) for name in names if not name.startswith("_")}


def _same_array(left: Any, right: Any) -> bool:
    if type(left) is not type(right) or left.shape != right.shape or left.dtype != right.dtype:
        return False
    if isinstance(left, Tensor):
        return bool(torch.equal(left, right) or torch.allclose(left, right, rtol=0, atol=0, equal_nan=True))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


def _told(left: Any, right: Any, where: str) -> str:
    return f"{where} is {_short(left)} and {_short(right)}"


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else text[:97] + "..."
