from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_judge import Endpoint, JudgeScore

from grpo_lightning.errors import ConfigError

URL = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "127.0.0.1:8000"}, "base_url: .* is no address"),
        ({"base_url": "ftp://x/v1"}, "base_url"),
        ({"model": ""}, "model: '' is empty"),
        ({"temperature": -1.0}, "temperature"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"concurrent_requests": 0}, "concurrent_requests"),
        ({"extra": {"messages": []}}, "extra: .*messages"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Endpoint(**{"base_url": URL, "model": "m", **settings})


def test_secrets_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="api_key_env") as error:
        Endpoint(base_url=URL, model="m", api_key_env="sk-verysecret")
    assert "verysecret" not in str(error.value)
    with pytest.raises(ConfigError, match="base_url") as error:
        Endpoint(base_url="http://me:verysecret@host/v1", model="m")
    assert "verysecret" not in str(error.value)


def test_errors_name_the_setting_under_judge() -> None:
    with pytest.raises(ConfigError, match=r"judge\.timeout: -1 is outside"):
        JudgeScore(judge={"base_url": URL, "model": "m", "timeout": -1})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"judge\.time_out.*did you mean 'timeout'"):
        JudgeScore(judge={"base_url": URL, "model": "m", "time_out": 1})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"judge\.model: None is missing"):
        JudgeScore(judge={"base_url": URL})  # type: ignore[arg-type]


def test_the_key_is_read_when_the_reward_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_JUDGE_KEY", raising=False)
    reward = JudgeScore(judge=Endpoint(base_url=URL, model="m", api_key_env="MY_JUDGE_KEY"))
    with pytest.raises(ConfigError, match=r"judge\.api_key_env: 'MY_JUDGE_KEY' is not set"):
        reward.setup()
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-verysecret")
    reward.setup()
    assert "verysecret" not in repr(vars(reward))
    assert "verysecret" not in reward.judge.identity


def test_votes_need_a_temperature() -> None:
    with pytest.raises(ConfigError, match="votes: 3 asks one question several times at temperature 0"):
        JudgeScore(judge=Endpoint(base_url=URL, model="m"), votes=3)
    JudgeScore(judge=Endpoint(base_url=URL, model="m", temperature=None), votes=3)
