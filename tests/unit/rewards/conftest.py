from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grpo_lightning.types import Episode, FinishReason, Prompt, Turn


def make_episodes(
    completions: list[str | list[str] | None], *, group_size: int = 2, messages: Any = "2+3=", **columns: list[Any]
) -> list[Episode]:
    """One episode a completion: a text, texts of several turns, or ``None`` for no turn at all."""
    episodes = []
    for row, completion in enumerate(completions):
        texts = [] if completion is None else [completion] if isinstance(completion, str) else completion
        turns = [Turn([ord(letter) for letter in text], text, FinishReason.STOP) for text in texts]
        prompt = Prompt("train", row // group_size, messages, {name: values[row] for name, values in columns.items()})
        log_probs = [-0.5] * sum(len(text) for text in texts)
        episodes.append(Episode(prompt, row // group_size, row % group_size, turns, log_probs))
    return episodes


@pytest.fixture
def episodes() -> Callable[..., list[Episode]]:
    return make_episodes
