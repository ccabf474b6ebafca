from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from grpo_lightning.explanation.signal import pass_rates_seen, signal_line, zero_signal


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.75, 1.0])
def test_share_by_enumeration(rate: float, size: int) -> None:
    total = 0.0
    for rewards in itertools.product([0, 1], repeat=size):
        probability = 1.0
        for reward in rewards:
            probability *= rate if reward else 1 - rate
        total += probability * (len(set(rewards)) == 1)
    assert zero_signal(rate, size) == pytest.approx(total, abs=1e-15)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        zero_signal(rate, 8)


def written(folder: Path, text: str) -> Path:
    path = folder / "metrics.csv"
    path.write_text(text)
    return path


HEAD = "step,group/reward_mean_p10,group/reward_mean_p50,group/reward_mean_p90\n"


def test_rates_are_those_of_the_last_rollout_logged(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "1,0.0,0.1,0.2\n2,,,\n3,0.125,0.5,0.75\n4,,,\n")
    assert pass_rates_seen(path) == [0.125, 0.5, 0.75]


@pytest.mark.parametrize(
    "text", ["", "step\n1\n", HEAD, HEAD + "1,,,\n", HEAD + "1,-1.0,0.0,0.5\n", HEAD + "1,0.5,0.9,2.5\n"]
)
def test_nothing_where_there_are_no_pass_rates(tmp_path: Path, text: str) -> None:
    assert pass_rates_seen(written(tmp_path, text)) == []


def test_nothing_without_a_file(tmp_path: Path) -> None:
    assert pass_rates_seen(tmp_path / "metrics.csv") == []


def test_line() -> None:
    assert signal_line([0.5, 1.0], 3) == "25.0% at 0.50, 100.0% at 1.00"
