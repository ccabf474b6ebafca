"""The form of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fault(prompt: Any) -> str | None:
    """What is wrong with a prompt, in a few words; ``None`` if it is text or a list of chat messages.

    Example:
        >>> fault([{"role": "user", "text": "2+3="}])
        'message 1 of its prompt has no `content`'
    """
    if isinstance(prompt, str):
        return None if prompt else "its prompt is empty"
    if not isinstance(prompt, list | tuple):
        return f"its prompt is {_named(prompt)}, neither a text nor a list of chat messages"
    if not prompt:
        return "its prompt is a list without messages"
    for number, message in enumerate(prompt, start=1):
        if not isinstance(message, Mapping):
            return f"message {number} of its prompt is {_named(message)}, no object with `role` and `content`"
        if not isinstance(message.get("role"), str):
            return f"message {number} of its prompt has no `role`"
        if not isinstance(message.get("content"), str | list):
            return f"message {number} of its prompt has no `content`"
    return None


def without_nulls(prompt: Any) -> Any:
    """The prompt without the empty keys that a table gives to messages which do not have them all."""
    if isinstance(prompt, str):
        return prompt
    return [{key: value for key, value in message.items() if value is not None} for message in prompt]


def _named(value: Any) -> str:
    return "empty" if value is None else f"of type {type(value).__name__}"
