"""A hash of what a score depends on: the reward's code and settings, and what it is asked about."""

from __future__ import annotations

import enum
import hashlib
import inspect
import pickle
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.base import Reward

_KNOWN: dict[int, tuple[ref[Reward], bytes]] = {}
"""By identity: a reward may define equality, and no hash."""


def reward_fingerprint(reward: Reward) -> bytes:
    """Hash of a reward: its class, ``version``, distribution, source file and settings. The first one of an object stays.

    Raises:
        ConfigError: If a setting cannot be told apart from others.
    """
    known = _KNOWN.get(id(reward))
    if known is None or known[0]() is not reward:
        owner = type(reward)
        about = [owner.__module__, owner.__qualname__, reward.version, _distribution(owner.__module__), _source(owner)]
        try:
            # Before its setup, or what that loads would be in it.
            known = _KNOWN[id(reward)] = (ref(reward), fingerprint([*about, dict(vars(reward))]))
        except Exception as error:
            reason = f"has settings that cannot be part of a cache's key ({type(error).__name__}: {error})"
            raise ConfigError(
                "cache", reward.label, reason, "leave cache out, or keep plain values in the reward"
            ) from None
    return known[1]


def arguments_fingerprint(reward: bytes, arguments: Mapping[str, Any]) -> bytes:
    """Hash of one call: the reward's, and the arguments. Of ``groups`` only which rows are together counts."""
    seen: dict[Any, int] = {}
    named = {
        name: [seen.setdefault(group, len(seen)) for group in value] if name == "groups" else value
        for name, value in arguments.items()
    }
    return fingerprint([reward, named])


def fingerprint(value: Any) -> bytes:
    """SHA-256 of a value's content, with the types of all that is in it: 1, 1.0, ``True`` and ``"1"`` differ.

    Example:
        >>> fingerprint({"a": 1, "b": [2.0]}) == fingerprint({"b": [2.0], "a": 1})
        True
        >>> fingerprint(1) == fingerprint(1.0)
        False
    """
    return hashlib.sha256(_content(value)).digest()


def _content(value: Any) -> bytes:
    for kinds, tag, content in _CONTENTS:
        if isinstance(value, kinds) and type(value) is not bool:
            return _tagged(tag, *content(value))
    if value is None or isinstance(value, bool):
        return _tagged("const", str(value).encode())
    if is_dataclass(value) and not isinstance(value, type):
        parts = [_content(getattr(value, each.name)) for each in fields(value)]
        return _tagged("data", type(value).__qualname__.encode(), *parts)
    if isinstance(value, partial):
        return _tagged("partial", *map(_content, (value.func, value.args, value.keywords)))
    if inspect.isroutine(value) or isinstance(value, type):
        owner: Any = getattr(value, "__self__", None)
        bound = _content(vars(owner)) if hasattr(owner, "__dict__") and not inspect.ismodule(owner) else b""
        place = f"{getattr(value, '__module__', '')}.{value.__qualname__}"
        return _tagged("code", place.encode(), _source(value).encode(), bound, *_of_function(value))
    if callable(value) and hasattr(value, "__dict__"):
        return _tagged("callable", _content(type(value)), _content(vars(value)))
    return _tagged("pickle", pickle.dumps(value, protocol=4))


def _of_function(value: Any) -> list[bytes]:
    """What a function does beyond the text of its file: its code, its defaults, and what it has closed over."""
    function = getattr(value, "__func__", value)
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return [_of_code(code), *map(_content, (function.__defaults__, function.__kwdefaults__, cells))]


def _of_code(code: CodeType) -> bytes:
    parts = [_of_code(each) if isinstance(each, CodeType) else _content(each) for each in code.co_consts]
    return _tagged("code", code.co_code, _content(code.co_names), _content(code.co_varnames), *parts)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _bytes(value: Tensor) -> bytes:
    dense = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
    return dense.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _tagged(tag: str, *parts: bytes) -> bytes:
    lengths = struct.pack(f">{len(parts)}Q", *map(len, parts))
    return tag.encode() + b":" + struct.pack(">Q", len(parts)) + lengths + b"".join(parts)


def _pairs(value: Mapping[Any, Any]) -> list[bytes]:
    pairs = sorted((_content(key), _content(item)) for key, item in value.items())
    return [part for pair in pairs for part in pair]


_CONTENTS: list[tuple[Any, str, Callable[[Any], list[bytes]]]] = [
    (enum.Enum, "enum", lambda each: [type(each).__qualname__.encode(), each.name.encode()]),
    (int, "int", lambda each: [str(int(each)).encode()]),
    (np.generic, "scalar", lambda each: [each.dtype.str.encode(), each.tobytes()]),
    (float, "float", lambda each: [struct.pack(">d", each)]),
    (str, "text", lambda each: [each.encode("utf-8", "surrogatepass")]),
    (bytes, "bytes", lambda each: [each]),
    (Path, "path", lambda each: [str(each).encode("utf-8", "surrogateescape")]),
    (re.Pattern, "pattern", lambda each: [_content(each.pattern), str(each.flags).encode()]),
    (list | tuple, "list", lambda each: [_content(item) for item in each]),
    (set | frozenset, "set", lambda each: sorted(_content(item) for item in each)),
    (Mapping, "map", _pairs),
    (np.ndarray, "array", lambda each: [each.dtype.str.encode(), str(each.shape).encode(), _elements(each)]),
    (Tensor, "tensor", lambda each: [str(each.dtype).encode(), str(tuple(each.shape)).encode(), _bytes(each)]),
]


def _elements(array: Any) -> bytes:
    # The bytes of an array of objects are addresses.
    return _content(array.tolist()) if array.dtype.hasobject else bytes(array.tobytes())


def _source(owner: Any) -> str:
    """Hash of the file in which something is written; empty where there is none."""
    try:
        return _file_hash(inspect.getsourcefile(owner) or "")
    except (TypeError, OSError):
        return ""


@cache
def _file_hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


@cache
def _distribution(module: str) -> str:
    """Name and version of the distribution that a module came with; empty where there is none."""
    found = metadata.packages_distributions().get(module.partition(".")[0], [])
    return " ".join(f"{name} {metadata.version(name)}" for name in sorted(set(found)))
