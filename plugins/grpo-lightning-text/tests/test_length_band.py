from __future__ import annotations

from types import SimpleNamespace

import pytest
from grpo_lightning_text import LengthBand

from grpo_lightning.errors import ConfigError


def scores(reward: LengthBand, lengths: list[int]) -> list[float]:
    return reward.score(lengths=lengths, turns=[[]] * len(lengths))


def test_ramp() -> None:
    reward = LengthBand(rises_to=4, flat_to=8, zero_from=12)
    assert scores(reward, [0, 1, 4, 6, 8, 9, 11, 12, 99]) == [0, 0.25, 1, 1, 1, 0.75, 0.25, 0, 0]


def test_flat_from_the_start() -> None:
    assert scores(LengthBand(rises_to=0, flat_to=2, zero_from=4), [0, 2, 3, 4]) == [1, 1, 0.5, 0]


def test_steep_end() -> None:
    assert scores(LengthBand(rises_to=0, flat_to=2, zero_from=2), [2, 3]) == [1, 0]


def test_words_and_characters_of_all_turns() -> None:
    turns = [[SimpleNamespace(text="one two"), SimpleNamespace(text="three")]]
    words = LengthBand(rises_to=6, flat_to=6, zero_from=6, unit="words")
    characters = LengthBand(rises_to=24, flat_to=24, zero_from=24, unit="characters")
    assert words.score(lengths=[99], turns=turns) == [3 / 6]
    assert characters.score(lengths=[99], turns=turns) == [12 / 24]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"rises_to": -1, "flat_to": 2, "zero_from": 3}, "rises_to"),
        ({"rises_to": 3, "flat_to": 2, "zero_from": 3}, "flat_to"),
        ({"rises_to": 1, "flat_to": 3, "zero_from": 2}, "zero_from"),
        ({"rises_to": 1, "flat_to": 2, "zero_from": 3, "unit": "lines"}, "unit"),
    ],
)
def test_settings_are_checked(wrong: dict[str, int], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        LengthBand(**wrong)
