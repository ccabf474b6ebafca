"""Who is decoded when."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.engines.admission import Admission, Admitted


def admission(context_Q: list[int], lengths: list[int], **changed: object) -> Admission:
    settings = {"batch_rows": 100, "cache_tokens": 10_000, "joins": True, **changed}
    return Admission(torch.tensor(context_Q), lengths, 10, **settings)  # type: ignore[arg-type]


def test_long_contexts_come_first_and_rows_of_one_together() -> None:
    waiting = admission([0, 1, 2, 1, 0], [5, 9, 3])
    assert waiting.admit() == [Admitted(1, [1, 3], False), Admitted(0, [0, 4], False), Admitted(2, [2], False)]
    assert waiting.admit() == []


def test_batch_rows_splits_a_context_and_ended_rows_make_room() -> None:
    waiting = admission([0, 0, 0, 1, 1], [5, 4], batch_rows=2)
    assert waiting.admit() == [Admitted(0, [0, 1], True)]
    assert waiting.admit() == []
    waiting.ended([1])
    assert waiting.admit() == [Admitted(0, [2], False)]
    waiting.ended([0, 2])
    assert waiting.admit() == [Admitted(1, [3, 4], False)]


def test_a_context_counts_once_and_a_row_with_its_limit() -> None:
    # A context of 30 and two rows of 10; the next context needs 20 and 10 more.
    waiting = admission([0, 0, 1], [30, 20], cache_tokens=79)
    assert waiting.admit() == [Admitted(0, [0, 1], False)]
    waiting.ended([0])
    assert waiting.admit() == [Admitted(1, [2], False)]
    whole = admission([0, 0, 1], [30, 20], cache_tokens=80)
    assert whole.admit() == [Admitted(0, [0, 1], False), Admitted(1, [2], False)]


def test_a_context_is_counted_until_its_last_row_has_ended() -> None:
    waiting = admission([0, 0, 1], [30, 20], cache_tokens=50)
    assert waiting.admit() == [Admitted(0, [0, 1], False)]
    waiting.ended([0])
    assert waiting.admit() == []
    waiting.ended([1])
    assert waiting.admit() == [Admitted(1, [2], False)]


def test_one_row_comes_in_however_long_it_is() -> None:
    waiting = admission([0, 0], [500], cache_tokens=1)
    assert waiting.admit() == [Admitted(0, [0], True)]
    waiting.ended([0])
    assert waiting.admit() == [Admitted(0, [1], False)]


@pytest.mark.parametrize("tokens", [129, 130])
def test_rows_that_share_nothing_come_in_when_all_have_ended(tokens: int) -> None:
    # Each row needs its context and its limit: 40 each for the first three, 10 and 10 for the last.
    waiting = admission([0, 0, 0, 1], [30, 10], cache_tokens=tokens + 10, joins=False)
    rows = [row for each in waiting.admit() for row in each.rows]
    assert rows == ([0, 1, 2] if tokens == 129 else [0, 1, 2, 3])
    waiting.ended([0, 1])
    assert waiting.admit() == []
    waiting.ended(rows[2:])
    assert [row for each in waiting.admit() for row in each.rows] == ([3] if tokens == 129 else [])


def test_contexts_of_one_pass_are_bounded_where_others_may_join() -> None:
    waiting = admission([0, 1, 2, 3], [3000, 3000, 1000, 100])
    assert [each.context for each in waiting.admit()] == [0]
    assert [each.context for each in waiting.admit()] == [1, 2]
    assert [each.context for each in waiting.admit()] == [3]
    apart = admission([0, 1, 2], [3000, 3000, 1000], joins=False)
    assert [each.context for each in apart.admit()] == [0, 1, 2]
