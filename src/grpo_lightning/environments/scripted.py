"""Answers that are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.errors import ConfigError, DataError, near_matches, require, require_range
from grpo_lightning.types import Episode

Piece = tuple[str, str | None]
"""Literal text, and the placeholder after it."""


class Scripted(Environment):
    """Shows a fixed reply after each turn, and ends the episode when there is none left.

    Args:
        replies: What is shown after turn 0, 1, ... ``{name}`` stands for a column of the prompt, ``{completion}`` for
            the turn just written; braces that mean themselves are doubled.
        column: Instead of ``replies``: the column that holds a prompt's own replies, a list or one text, shown as they
            are. ``None`` in it means no replies.
        turns: Turns that the policy may write; by default one more than there are replies. Needed with ``column``.
        max_observation_tokens: Tokens that one reply may have; longer ones are cut at the end.

    Example:
        >>> from grpo_lightning.types import Episode, FinishReason, Prompt, Turn
        >>> episode = Episode(Prompt("train", 0, "2+3=", {"answer": "5"}), 0, 0, [Turn([4], "4", FinishReason.STOP)])
        >>> Scripted(replies=["{completion}? Try again: "]).step([episode])[0].text
        '4? Try again: '
    """

    name = "scripted"
    example: ClassVar[Mapping[str, Any]] = {"replies": ["{completion}? Again: ", "Once more: "]}

    def __init__(
        self,
        *,
        replies: Sequence[str] | None = None,
        column: str | None = None,
        turns: int | None = None,
        max_observation_tokens: int = 128,
    ) -> None:
        require(not isinstance(replies, str), "replies", replies, "is one text", "give a list of texts")
        require((replies is None) != (column is None), "replies", replies, "and `column` exclude each other", "set one")
        if turns is None:
            require(replies is not None, "turns", turns, "is missing: with `column` it is needed", "set it")
            turns = len(replies or ()) + 1
        require_range("turns", turns, low=1)
        require_range("max_observation_tokens", max_observation_tokens, low=1)
        self.column = column
        self.replies = [_parse(reply) for reply in replies or ()]
        self.max_turns = turns
        self.max_observation_tokens = max_observation_tokens

    @override
    def start(self, episodes: Sequence[Episode]) -> None:
        """Check that every prompt has the columns that are asked for.

        Raises:
            ConfigError: If it lacks one that a placeholder or ``column`` names.
            DataError: If ``column`` holds something other than texts.
        """
        names = {name for reply in self.replies for _, name in reply if name not in (None, "completion")}
        for episode in episodes:
            columns = episode.prompt.columns
            for name in sorted(str(name) for name in names):
                if name not in columns:
                    known = near_matches(name, [*columns, "completion"])
                    raise ConfigError("replies", f"{{{name}}}", "is no column of the prompt", known)
            self._own_replies(episode)

    @override
    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        """One observation an episode: the reply that belongs to the turn just written."""
        return [Observation(self._reply(episode)) for episode in episodes]

    def _reply(self, episode: Episode) -> str | None:
        turn = len(episode.turns) - 1
        if self.column is not None:
            own = self._own_replies(episode)
            return own[turn] if turn < len(own) else None
        if turn >= len(self.replies):
            return None
        values = {**episode.prompt.columns, "completion": episode.completion}
        return "".join(text + ("" if name is None else str(values[name])) for text, name in self.replies[turn])

    def _own_replies(self, episode: Episode) -> list[str]:
        if self.column is None:
            return []
        if self.column not in episode.prompt.columns:
            known = near_matches(self.column, episode.prompt.columns)
            raise ConfigError("column", self.column, "is no column of the prompt", known)
        value = episode.prompt.columns[self.column]
        if value is None or isinstance(value, str):
            return [] if value is None else [value]
        if not (isinstance(value, list | tuple) and all(isinstance(reply, str) for reply in value)):
            where = f"in column {self.column!r}, row {episode.prompt.index} of {episode.prompt.dataset!r}"
            raise DataError("column", value, f"{where}, is neither a text nor a list of texts", "mend the row")
        return list(value)


def _parse(reply: str) -> list[Piece]:
    """Literal texts of a reply and the placeholders between them."""
    pieces: list[Piece] = []
    try:
        parsed = list(Formatter().parse(reply))
    except ValueError as error:
        raise ConfigError("replies", reply, f"cannot be read ({error})", "double braces that mean themselves") from None
    for text, name, spec, conversion in parsed:
        plain = name is None or (name.isidentifier() and not spec and not conversion)
        reason = f"has the placeholder {{{name}}}, which is no plain name"
        require(plain, "replies", reply, reason, "use {name}, or double braces that mean themselves")
        pieces.append((text, name))
    return pieces
