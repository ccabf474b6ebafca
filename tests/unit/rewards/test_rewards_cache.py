from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.cache import ScoreCache, check_cache
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.scores import InvalidScore, RowScore

SEEN: list[list[str]] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def judge(completions: Sequence[str]) -> list[Any]:
    SEEN.append(list(completions))
    return [None if text == "none" else [0.1] if text == "turns" else np.float32(0.1) for text in completions]


def moody(completions: Sequence[str]) -> list[float]:
    SEEN.append(list(completions))
    return [float("nan") if len(SEEN) == 1 else 1.0 for _ in completions]


def scored(path: Path, rows: Any, function: Any = judge, **fields: Any) -> Any:
    settings = {"cache": str(path), "per_call": "row", "on_failure": "abstain", "name": "x", **fields}
    with Firewall([RewardEntry(reward=FunctionReward(function=function), **settings)]) as firewall:
        return firewall.scores(rows, update=0, stage="train")


def test_calls_are_made_once_and_scores_come_back_as_they_were(tmp_path: Path, episodes: Any) -> None:
    path = tmp_path / "deep" / "scores.db"
    rows = episodes(["a", "none", "turns"])
    first = scored(path, rows)
    second = scored(path, rows)
    assert SEEN == [["a"], ["none"], ["turns"]]
    assert first.raw == second.raw == {"x": [float(np.float32(0.1)), None, 0.1]}
    assert first.turn_scores == second.turn_scores == {"x": [None, None, [0.1]]}
    assert first.epsilon == second.epsilon == 2.0**-23
    assert first.counts["x"].get("cache_hits") is None
    assert second.counts["x"]["cache_hits"] == 3.0


def test_a_call_of_a_group_is_known_as_a_whole(tmp_path: Path, episodes: Any) -> None:
    scored(tmp_path / "s.db", episodes(["a", "b", "a", "c"]), per_call="group")
    scored(tmp_path / "s.db", episodes(["a", "c", "a", "b"]), per_call="group")
    assert SEEN == [["a", "b"], ["a", "c"]]
    scored(tmp_path / "s.db", episodes(["a", "c", "a", "b"]), per_call="rollout")
    assert SEEN[2:] == [["a", "c", "a", "b"]]


def test_failures_are_not_kept(tmp_path: Path, episodes: Any) -> None:
    assert scored(tmp_path / "s.db", episodes(["a"]), moody).raw == {"x": [None]}
    assert scored(tmp_path / "s.db", episodes(["a"]), moody).raw == {"x": [1.0]}
    assert scored(tmp_path / "s.db", episodes(["a"]), moody).counts["x"]["cache_hits"] == 1.0


def test_a_range_also_holds_for_what_is_known(tmp_path: Path, episodes: Any) -> None:
    scored(tmp_path / "s.db", episodes(["a"]))
    again = scored(tmp_path / "s.db", episodes(["a"]), range=[0.5, None])
    assert again.counts["x"]["failures/out_of_range"] == 1.0


def test_several_may_write_at_once(tmp_path: Path) -> None:
    caches = [ScoreCache(str(tmp_path / "s.db")) for _ in range(4)]

    def write(index: int) -> None:
        for key in range(50):
            caches[index].put(f"{index % 2}-{key}".encode(), [RowScore(float(key))])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert all(caches[3].get(f"{i}-{key}".encode(), [1]) == [RowScore(float(key))] for i in (0, 1) for key in range(50))


def test_a_file_that_is_none_of_ours_is_named_and_left_alone(tmp_path: Path, episodes: Any, caplog: Any) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database at all" * 100)
    for _ in range(2):
        assert scored(path, episodes(["a"])).raw["x"] is not None
    assert len(SEEN) == 2
    assert f"cache {path} of rewards cannot be used (file is not a database)" in caplog.text
    assert path.read_bytes().startswith(b"not a database")


def test_a_locked_file_does_not_stop_a_run(tmp_path: Path, episodes: Any, caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("grpo_lightning.rewards.cache.BUSY_SECONDS", 0.1)
    path = tmp_path / "s.db"
    ScoreCache(str(path)).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    scored(path, episodes(["a", "b"]))
    assert len([record for record in caplog.records if "cannot be used" in record.message]) == 1
    assert len(SEEN) == 2
    other.close()


def test_a_place_where_nothing_can_be_written(tmp_path: Path, episodes: Any, caplog: Any) -> None:
    (tmp_path / "file").write_text("")
    scored(tmp_path / "file" / "s.db", episodes(["a"]))
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize(
    "rows", ["oops", "[]", "[[1, null]]", "[[NaN, null, 1e-9]]", '[["x", null, 1e-9]]', "[1]", "{}"]
)
def test_rows_that_cannot_be_read_are_not_known(tmp_path: Path, rows: str) -> None:
    cache = ScoreCache(str(tmp_path / "s.db"))
    cache.put(b"key", [RowScore(1.0)])
    assert cache.get(b"key", [1]) == [RowScore(1.0)]
    other = sqlite3.connect(tmp_path / "s.db")
    other.execute("UPDATE scores SET rows = ?", (rows,))
    other.commit()
    assert cache.get(b"key", [1]) is None
    assert cache.get(b"other", [1]) is None


def test_only_plain_json_is_written(tmp_path: Path) -> None:
    ScoreCache(str(tmp_path / "s.db")).put(b"key", [RowScore(0.1, [0.1, None]), InvalidScore("x", "raised")])
    ((text,),) = sqlite3.connect(tmp_path / "s.db").execute("SELECT rows FROM scores")
    assert json.loads(text) == [[0.1, [0.1, None], 2.0**-52]]


def with_update(completions: list[str], update: int) -> list[float]:
    return [1.0] * len(completions)


def with_log_probs(completions: list[str], log_probs: Any = None) -> list[float]:
    return [1.0] * len(completions)


def with_all(**everything: Any) -> list[float]:
    return [1.0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (with_update, "reward 'with_update' asks for 'update', which never repeats"),
        (with_log_probs, "asks for 'log_probs', which never repeats"),
        (with_all, r"takes all there are \(\*\*\), of which update and log_probs never repeat; name the arguments"),
    ],
)
def test_what_never_repeats_is_refused(function: Any, text: str) -> None:
    entry = RewardEntry(reward=FunctionReward(function=function), cache="x.db")
    with pytest.raises(ConfigError, match=text):
        check_cache(entry)
    check_cache(RewardEntry(reward=FunctionReward(function=function)))
