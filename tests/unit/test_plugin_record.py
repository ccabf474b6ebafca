from __future__ import annotations

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.plugin_record import check_ranks, differences


def test_differences_name_both_versions_and_what_is_missing() -> None:
    made_with = {"grpo-lightning": "0.1.0", "a": "1.0", "b": "2.0"}
    assert differences(made_with, {"grpo-lightning": "0.1.0", "a": "1.1", "c": "3.0"}) == [
        "a 1.0, and here it is 1.1",
        "b 2.0, and here it is not loaded",
    ]


def test_equal_ranks_pass() -> None:
    check_ranks([("x", {"a": "1"}), ("x", {"a": "1"})])


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"a": "2"}, "'rank 1' loaded other plugins than rank 0: a is 1 there and 2 here"),
        ({"a": "1", "b": "3"}, "b is not loaded there and 3 here"),
        ({"a": "1"}, "other components of the same versions"),
    ],
)
def test_a_rank_with_other_plugins_stops_all(theirs: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match="plugins: .*" + said):
        check_ranks([("x", {"a": "1"}), ("y", theirs)])
