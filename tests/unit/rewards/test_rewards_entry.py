"""What an entry may say."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on_failure": "error"}, "on_failure: 'error' is no policy; set stop, abstain, drop_group, or a number"),
        ({"on_failure": "zero"}, "or a number as the score of a failed row, such as 0"),
        ({"on_failure": float("nan")}, "on_failure: nan is outside"),
        ({"on_failure": float("inf")}, "on_failure: inf is outside"),
        ({"on_failure": True}, "on_failure: True is no number"),
        ({"on_failure": "drop_group", "log_only": True}, "on_failure: 'drop_group' has no meaning for a reward that is only"),
        ({"on_failure": "drop_group", "weight": 0.0}, "only logged; set abstain"),
        ({"timeout": 0}, r"timeout: 0 is outside \(0, 1e\+06\]"),
        ({"timeout": float("inf")}, "timeout: inf is outside"),
        ({"retries": -1}, "retries: -1 is outside"),
        ({"retries": 1.0}, "retries: 1.0 is no whole number; set 0 or more"),
        ({"backoff": -1}, "backoff: -1 is outside"),
        ({"concurrency": 0}, "concurrency: 0 is outside"),
        ({"concurrency": 2, "per_call": "rollout"}, "per_call: 'rollout' makes one call .* concurrency 2 .*; set group or row"),
        ({"per_call": "batch"}, "per_call: 'batch' is no unit; set rollout, group or row"),
        ({"isolation": "docker"}, "isolation: 'docker' is no isolation; set thread or process"),
        ({"range": [1.0, 0.0]}, r"range: \[1.0, 0.0\] is empty"),
        ({"range": [None, None]}, "allows everything; leave it out"),
        ({"range": [0.0]}, r"is no pair; set \[low, high\]"),
        ({"range": [0.0, float("nan")]}, "range: nan is outside"),
        ({"cache": ""}, "cache: '' is no file"),
    ],
)  # fmt: skip
def test_faults(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RewardEntry(reward=ExactMatch(), **fields)


def test_what_one_call_gets() -> None:
    assert RewardEntry(reward=ExactMatch()).unit == "rollout"
    assert RewardEntry(reward=ExactMatch(), concurrency=3).unit == "group"
    assert RewardEntry(reward=ExactMatch(), concurrency=3, per_call="row").unit == "row"
    assert RewardEntry(reward=ExactMatch(), per_call="group").unit == "group"


def test_a_hang_never_hangs_a_run_unless_asked_to() -> None:
    assert RewardEntry(reward=ExactMatch()).timeout == 300.0
    assert RewardEntry(reward=ExactMatch(), timeout=None).timeout is None


def test_open_ranges_and_drops_of_gates() -> None:
    assert RewardEntry(reward=ExactMatch(), range=[0, None]).range == [0, None]
    assert RewardEntry(reward=ExactMatch(), gate=True, on_failure="drop_group").on_failure == "drop_group"
