from __future__ import annotations

import pytest

from grpo_lightning.curricula.pool import check_sizes, locate
from grpo_lightning.errors import ConfigError


def test_locate() -> None:
    sizes = {"a": 2, "b": 1, "c": 2}
    found = [locate(sizes, position) for position in range(5)]
    assert found == [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1)]
    with pytest.raises(IndexError):
        locate(sizes, 5)


def test_there_must_be_something_to_draw() -> None:
    with pytest.raises(ConfigError, match="holds no data set"):
        check_sizes({})
    with pytest.raises(ConfigError, match="'b' is a data set without rows"):
        check_sizes({"a": 1, "b": 0})
