"""Quoting what others wrote, so that a judge reads it as data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any


def nonce(texts: Sequence[str]) -> str:
    """A word that none of ``texts`` holds: twelve hexadecimal digits of their SHA-256.

    Whoever writes one of the texts cannot put the word into it, for the word depends on every character of it. It needs
    no random draw, so the same question is asked with the same words on every rank and in every run.
    """
    for salt in range(1_000_000):
        digest = hashlib.sha256(str(salt).encode())
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        word = digest.hexdigest()[:12]
        if not any(word in text for text in texts):
            return word
    raise AssertionError("a million words of 48 bits cannot all be in the texts")


def quote(text: str, word: str, what: str) -> str:
    """``text`` between two lines that carry ``word``."""
    return f"<<<{word} {what}\n{encodable(text)}\n{word}>>>"


def encodable(text: str) -> str:
    """``text`` with a question mark for each lone surrogate, which no request can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def plain(prompt: Any) -> str:
    """A prompt as text: chat messages become lines that begin with their role.

    Example:
        >>> plain([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}])
        'system: Be brief.\\nuser: 2+2?'
    """
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message.get('role', 'user')}: {_content(message.get('content'))}" for message in prompt)


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, Sequence) else [content]
    return " ".join(_part(part) for part in parts)


def _part(part: Any) -> str:
    if isinstance(part, Mapping):
        return str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]"
    return str(part)
