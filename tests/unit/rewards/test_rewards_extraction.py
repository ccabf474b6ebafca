from __future__ import annotations

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.extraction import compile_pattern, last_capture


def test_last_capture() -> None:
    pattern = compile_pattern(r"= (\d+)", groups=1)
    assert last_capture(pattern, "= 1, = 22") == "22"
    assert last_capture(pattern, "none") is None


def test_number_of_groups_is_named() -> None:
    with pytest.raises(ConfigError, match="has 2 capturing groups; use exactly 1"):
        compile_pattern("(a)(b)", groups=1)
    assert compile_pattern("(a)(b)").groups == 2


def test_broken_pattern_is_named() -> None:
    with pytest.raises(ConfigError, match="is no regular expression"):
        compile_pattern("[")
