from __future__ import annotations

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.regex import Regex


def test_some_part_or_the_whole() -> None:
    completions = ["ab", "xab", "", "a\nb"]
    assert Regex(pattern="ab").score(completions=completions) == [1.0, 1.0, 0.0, 0.0]
    assert Regex(pattern="ab", full=True).score(completions=completions) == [1.0, 0.0, 0.0, 0.0]
    assert Regex(pattern="(?s)a.b").score(completions=completions) == [0.0, 0.0, 0.0, 1.0]


def test_pattern_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"^pattern: "):
        Regex(pattern="*")
