"""Made-up episodes: what rewards and environments are tried on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_lightning.types import Episode, FinishReason, Prompt, Turn

TEXTS = ("7", "The answer is 12.", "<answer>7</answer>", "no", "a b a", "seven\nand a half", "12 + 30 = 42")
UNICODE = ("π ≈ 3,14", "答案是七", "🙂🏳️‍🌈", "e\u0301", "\u202eשלום", "\x00\x1b[0m", "١٢", "ﬁ \u00a0\u2028")


def row_columns(columns: Mapping[str, Sequence[Any]], index: int) -> dict[str, Any]:
    """The columns of row ``index`` of a data set: each takes its values in turn."""
    return {name: values[index % len(values)] for name, values in columns.items() if len(values)}


def prompts(columns: Mapping[str, Sequence[Any]], count: int = 3) -> list[Prompt]:
    """Prompts of the data set ``train``, with plain text."""
    return [Prompt("train", index, f"{index} + 7 =", row_columns(columns, index)) for index in range(count)]


def completions_for(columns: Mapping[str, Any]) -> list[str]:
    """Texts to complete a prompt with: some general ones, and what its columns hold, so that right answers occur."""
    own = [str(value) for value in columns.values() if isinstance(value, str | int | float)]
    return [*TEXTS[:2], *own, *TEXTS[2:]]


def turn(text: str, finish: FinishReason = FinishReason.STOP) -> Turn:
    """A turn that writes a text, a step a character."""
    return Turn([ord(character) % 97 for character in text], text, finish)


def episodes(
    columns: Mapping[str, Sequence[Any]],
    *,
    groups: int = 3,
    members: int = 4,
    turns: int = 1,
    texts: Sequence[str] | None = None,
) -> list[Episode]:
    """Whole groups of finished episodes, a prompt a group.

    Args:
        columns: Values by column, which prompts take in turn.
        groups: Number of groups.
        members: Rows of a group.
        turns: Most turns of a row; members have 1 up to that many, in turn.
        texts: What is written, in turn; by default :func:`completions_for` the prompt.
    """
    made = []
    for group, prompt in enumerate(prompts(columns, groups)):
        for member in range(members):
            wanted = list(texts) if texts else completions_for(prompt.columns)
            episode = Episode(prompt, group, member)
            for number in range(1 + member % turns):
                written = turn(wanted[(group * members + member + number) % len(wanted)])
                episode.turns.append(written)
                episode.log_probs += [-0.5] * len(written.token_ids)
            for before in episode.turns[:-1]:
                before.observation, before.reward = "Go on.", 0.25
            made.append(episode)
    return made


def with_columns(rows: Sequence[Episode], changed: Mapping[str, Any]) -> list[Episode]:
    """The same rows, with some columns of their prompts changed."""
    return [
        Episode(
            Prompt(row.prompt.dataset, row.prompt.index, row.prompt.messages, {**row.prompt.columns, **changed}),
            row.group,
            row.member,
            row.turns,
            row.log_probs,
        )
        for row in rows
    ]
