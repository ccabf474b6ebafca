from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.procedural import Procedural


class Pairs(Procedural):
    """Pairs of numbers, for these tests."""

    name = "pairs"

    def __init__(self, *, sizes: Sequence[int], even: bool = False, **settings: Any) -> None:
        super().__init__(**{"count": None, "seed": 0, "split": "train", **settings})
        self.sizes, self.even = sizes, even

    def radices(self) -> Sequence[int]:
        return self.sizes

    def allowed(self, question: tuple[int, ...]) -> bool:
        return not self.even or question[0] % 2 == 0

    def row(self, question: tuple[int, ...]) -> dict[str, Any]:
        return {"prompt": " ".join(map(str, question)), "question": question}


def questions(sizes: Sequence[int], **settings: Any) -> list[tuple[int, ...]]:
    source = Pairs(sizes=sizes, **settings)
    source.load()
    return [row["question"] for row in source]


SMALL, LARGE = (10, 10), (10**4, 10**4)


def test_the_splits_of_a_small_space_are_all_of_it_and_disjoint() -> None:
    train, held_out = questions(SMALL), questions(SMALL, split="held_out", seed=3)
    assert sorted(train + held_out) == [(a, b) for a in range(10) for b in range(10)]
    assert 5 < len(held_out) < 40


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_questions_are_distinct_and_within_range(sizes: Sequence[int]) -> None:
    drawn = questions(sizes, count=50)
    assert len(set(drawn)) == 50
    assert all(0 <= number < size for question in drawn for number, size in zip(question, sizes, strict=True))


def test_the_splits_of_a_large_space_are_disjoint_and_the_whole_range_is_drawn() -> None:
    train, held_out = questions(LARGE, count=3000), questions(LARGE, count=3000, split="held_out")
    assert not set(train) & set(held_out)
    for drawn in (train, held_out):
        mean = sum(first for first, _ in drawn) / 3000
        assert abs(mean - 4999.5) < 4 * (10**4 / 12**0.5) / 3000**0.5


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_rows_depend_on_seed_and_split_and_fewer_are_a_beginning_of_more(sizes: Sequence[int]) -> None:
    assert questions(sizes, count=20) == questions(sizes, count=50)[:20]
    assert questions(sizes, count=20) != questions(sizes, count=20, seed=1)


def test_without_a_count_there_are_at_most_a_thousand() -> None:
    assert len(questions(LARGE)) == 1000
    assert len(questions(SMALL)) < 100


def test_too_many_is_an_error_with_both_numbers() -> None:
    available = len(questions(SMALL))
    with pytest.raises(
        DataError, match=rf"^count: 500 is more than the {available} different questions of split 'train'"
    ):
        questions(SMALL, count=500)
    assert len(questions(SMALL, count=available)) == available


def test_too_many_of_a_large_space_with_few_allowed_ends_too() -> None:
    class One(Pairs):
        """A large space with one question."""

        name = "one"

        def allowed(self, question: tuple[int, ...]) -> bool:
            return False

    source = One(sizes=LARGE, count=3)
    with pytest.raises(DataError, match="count: 3 is more than the 0 different questions"):
        source.load()


def test_only_allowed_questions_are_asked() -> None:
    assert all(first % 2 == 0 for first, _ in questions(SMALL, even=True))


def test_rows_are_copies() -> None:
    source = Pairs(sizes=SMALL)
    source.load()
    source[0]["prompt"] = "spoilt"
    assert source[0]["prompt"] != "spoilt"
    assert source.columns == ["prompt", "question"]


def test_settings_are_checked() -> None:
    for setting, settings in (("count", {"count": 0}), ("split", {"split": "test"})):
        with pytest.raises(ConfigError, match=rf"^{setting}: "):
            Pairs(sizes=SMALL, **settings)
    with pytest.raises(RuntimeError, match="call load"):
        len(Pairs(sizes=SMALL))
