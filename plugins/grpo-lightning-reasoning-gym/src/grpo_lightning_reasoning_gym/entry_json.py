"""An entry of a task as JSON, exactly: tuples stay tuples, and keys stay what they are."""

from __future__ import annotations

import json
from typing import Any

_TUPLE, _DICT, _SET = "@tuple", "@dict", "@set"


def to_json(value: Any) -> str:
    """Text from which :func:`from_json` makes an equal value of equal types.

    Args:
        value: Numbers, texts, ``None``, and lists, tuples, sets and dicts of them, with any of these as keys.

    Raises:
        TypeError: If something else is in it.

    Example:
        >>> from_json(to_json({"path": ((0, 1), (1, 1)), 3: {2}}))
        {'path': ((0, 1), (1, 1)), 3: {2}}
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def from_json(text: str) -> Any:
    """The value that :func:`to_json` wrote.

    Raises:
        ValueError: If it is no JSON.
    """
    return json.loads(text, object_hook=_restored)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if all(type(key) is str and not key.startswith("@") for key in value):
            return {key: _plain(each) for key, each in value.items()}
        return {_DICT: [[_plain(key), _plain(each)] for key, each in value.items()]}
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(each) for each in value]}
    if isinstance(value, set | frozenset):
        return {_SET: sorted((_plain(each) for each in value), key=repr)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _restored(value: dict[str, Any]) -> Any:
    if value.keys() == {_TUPLE}:
        return tuple(value[_TUPLE])
    if value.keys() == {_SET}:
        return set(value[_SET])
    if value.keys() == {_DICT}:
        return dict(value[_DICT])
    return value
