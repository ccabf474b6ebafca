"""Why rows end, with a tokenizer whose tokens hold several characters, or a part of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from grpo_lightning.engines.stopping import cut_at_stop, finish_of
from grpo_lightning.types import FinishReason

PIECES = {
    3: b"</",
    4: b"answer",
    5: b">",
    6: b"x</answer>y",
    7: b"abc",
    8: b"\xe2",
    9: b"\x82",
    10: b"\xac",
    11: b"STOP",
}
STOP_ID = 1


class Pieces:
    """What stopping needs of a policy: bytes to text."""

    def decode(self, steps: Sequence[int]) -> str:
        steps = list(steps)
        if steps and steps[-1] == STOP_ID:
            steps.pop()
        return b"".join(PIECES.get(step, b"") for step in steps).decode(errors="replace")


POLICY: Any = Pieces()


def finish(tokens: Sequence[int], *strings: str, limit: int = 99) -> FinishReason | None:
    return finish_of(POLICY, tokens, limit, frozenset({STOP_ID, 2}), strings)


@pytest.mark.parametrize("token", [1, 2])
def test_every_stop_id_stops(token: int) -> None:
    assert finish([7, token]) is FinishReason.STOP
    assert finish([token]) is FinishReason.STOP


def test_limit() -> None:
    assert finish([7, 7], limit=2) is FinishReason.LENGTH
    assert finish([7, 7], limit=3) is None
    assert finish([7, 1], limit=2) is FinishReason.STOP


@pytest.mark.parametrize(
    ("tokens", "string"),
    [
        ([3, 4, 5], "</answer>"),
        ([7, 3, 4, 5], "</answer>"),
        ([6], "</answer>"),
        ([7, 6], "</answer>"),
        ([7], "b"),
        ([7, 7], "ca"),
    ],
)
def test_a_string_that_spans_tokens_or_lies_inside_one(tokens: list[int], string: str) -> None:
    assert finish(tokens, string) is FinishReason.STOP
    assert finish(tokens[:-1] or [11], string) is None
    assert finish(tokens, "other", string) is FinishReason.STOP
    assert finish(tokens, string, limit=len(tokens)) is FinishReason.STOP


def test_a_character_of_three_tokens() -> None:
    assert finish([8, 9], "€") is None
    assert finish([7, 8, 9, 10], "€") is FinishReason.STOP
    assert finish([7, *[8, 9, 10] * 6], "€" * 6) is FinishReason.STOP


def test_a_long_row_is_read_from_its_end_only() -> None:
    assert finish([7] * 1000 + [3, 4, 5], "</answer>") is FinishReason.STOP
    assert finish([7] * 1000 + [8, 9, 10] * 20, "€" * 20) is FinishReason.STOP


def test_cut_at_stop() -> None:
    def cut(tokens: Sequence[int], *strings: str, limit: int = 99) -> tuple[int, FinishReason]:
        return cut_at_stop(POLICY, tokens, limit, frozenset({STOP_ID}), strings)

    assert cut([7, 1, 1, 1]) == (2, FinishReason.STOP)
    assert cut([7, 7, 7], limit=2) == (2, FinishReason.LENGTH)
    assert cut([7, 3, 4, 5, 7], "</answer>") == (4, FinishReason.STOP)
    assert cut([7, 7]) == (2, FinishReason.LENGTH)
