from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.length import Length
from grpo_lightning.types import FinishReason, Turn


def test_grows_over_the_buffer() -> None:
    # L = 20, b = 8: nothing up to 12, -(l - 12) / 8 up to 20, -1 from there.
    lengths = [0, 12, 13, 16, 20, 21, 500]
    scores = Length(maximum=20, buffer=8).score(lengths=lengths, turns=[[]] * 7)
    assert scores == [0.0, 0.0, -0.125, -0.5, -1.0, -1.0, -1.0]


def test_without_a_buffer_it_is_a_step() -> None:
    assert Length(maximum=3).score(lengths=[3, 4], turns=[[], []]) == [0.0, -1.0]


def test_units() -> None:
    rows = [[Turn([1], "two words", FinishReason.STOP), Turn([2], " three", FinishReason.STOP)]]
    assert Length(maximum=2, unit="words").score(lengths=[0], turns=rows) == [-1.0]
    assert Length(maximum=3, unit="words").score(lengths=[0], turns=rows) == [0.0]
    assert Length(maximum=15, unit="characters").score(lengths=[0], turns=rows) == [0.0]
    assert Length(maximum=14, unit="characters").score(lengths=[0], turns=rows) == [-1.0]


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [("maximum", {"maximum": 0}), ("buffer", {"maximum": 2, "buffer": 3}), ("unit", {"maximum": 2, "unit": "pages"})],
)
def test_settings_are_checked(setting: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^{setting}: "):
        Length(**arguments)
