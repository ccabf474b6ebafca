"""Worker processes: what reaches them, how they end, and that nothing of them is left."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError, RewardError
from grpo_lightning.rewards.checks import check_calls
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.process_tree import descendants
from helpers.worker_rewards import Working, awaits, config

TESTS = Path(__file__).parents[2]


def working(**fields: Any) -> RewardEntry:
    settings = {key: fields.pop(key) for key in ("folder", "broken") if key in fields}
    return RewardEntry(reward=Working(**settings), **{"name": "x", "isolation": "process", **fields})


def run(entry: RewardEntry, rows: Any) -> Any:
    with Firewall([entry]) as firewall:
        return firewall.scores(rows, update=0, stage="train")


def eventually(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sleepers(folder: Path) -> list[int]:
    """Processes that the hanging reward has told of."""
    assert eventually((folder / "pids").exists)
    return [int(each) for each in (folder / "pids").read_text().split()]


def test_a_worker_sets_the_reward_up_once_and_stays(episodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("/a/path/of/the/run")
    reward = working()
    with Firewall([reward]) as firewall:
        one, two = (
            firewall.scores(episodes(["process", "setups", "path"]), update=0, stage="train").raw["x"] for _ in "ab"
        )
    assert one == two
    assert one[1:] == [1.0, 1.0]
    assert one[0] != os.getpid()
    assert not alive(int(one[0]))
    assert reward.reward.set_up == 0  # type: ignore[attr-defined]  # not here


def test_calls_run_in_as_many_processes_as_is_said(episodes: Any) -> None:
    scores = run(working(concurrency=2, per_call="row"), episodes(["process"] * 8))
    assert len(set(scores.raw["x"])) <= 2


def test_what_a_reward_prints_and_reads_is_not_in_the_way(episodes: Any, capfd: Any) -> None:
    assert run(working(), episodes(["prints"])).raw["x"] == [0.0]
    captured = capfd.readouterr()
    assert (captured.out, captured.err.count("noise")) == ("", 10_000)


def test_async_rewards_and_every_kind_of_score(episodes: Any) -> None:
    entry = RewardEntry(reward=FunctionReward(function=awaits), name="x", isolation="process")
    scores = run(entry, episodes(["a", "b", "c"]))
    assert (scores.raw["x"], scores.turn_scores["x"]) == ([0.5, None, 1.0], [[0.5], None, None])


def test_an_error_of_configuration_comes_back_as_one(episodes: Any) -> None:
    entry = RewardEntry(reward=FunctionReward(function=config), isolation="process", on_failure="abstain")
    with pytest.raises(DataError, match=r"^column: '\{1\}' is wrong; mend it$"):
        run(entry, episodes(["a"]))


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        ("raise", RewardError, "reward 'x': setup in a worker process raised OSError: no model at worker_rewards.py:"),
        ("config", ConfigError, "model: 'x' is unknown; mend it"),
        ("die", RewardError, "reward 'x' ended its worker process with exit code 5 while it started"),
    ],
)
def test_a_setup_that_fails_ends_the_run_at_its_start(broken: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text), Firewall([working(broken=broken, on_failure="abstain")]) as firewall:
        firewall.start()


def test_a_hang_is_killed_with_all_that_it_started(tmp_path: Path, episodes: Any) -> None:
    before = set(descendants(os.getpid()))  # what other tests of this process keep
    with Firewall([working(folder=str(tmp_path), timeout=3.0, per_call="row", on_failure="abstain")]) as firewall:
        scores = firewall.scores(episodes(["family", "setups"]), update=0, stage="train")
        assert scores.raw["x"] == [None, 1.0]
        assert scores.counts["x"]["failures/timeout"] == 1.0
        assert not any(map(alive, sleepers(tmp_path)))
        assert len(set(descendants(os.getpid())) - before) == 2  # the worker that took its place, and its keeper
    assert set(descendants(os.getpid())) <= before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_run_however_it_ends(tmp_path: Path, number: int) -> None:
    script = (
        "import sys; from helpers.worker_rewards import Working; from grpo_lightning.rewards.entry import RewardEntry\n"
        "from grpo_lightning.rewards.runner import score_entries; from grpo_lightning.types import *\n"
        "episode = Episode(Prompt('train', 0, 'x', {}), 0, 0, [Turn([1], 'family', FinishReason.STOP)])\n"
        "entry = RewardEntry(reward=Working(folder=sys.argv[1]), isolation='process', timeout=None)\n"
        "score_entries([entry], [episode], update=0, stage='train')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=environment)
    try:
        found = sleepers(tmp_path)
        assert all(map(alive, found))
        process.send_signal(number)
        process.wait(20)
        assert eventually(lambda: not any(map(alive, found)))
    finally:
        process.kill()


def test_ctrl_c_stops_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "grpo_lightning", "fit", "--config", str(TESTS / "conf" / "tiny.yaml"), "--runs_folder",
        str(tmp_path), "--model.rewards",
        "[{reward: helpers.hostile_rewards.forever, isolation: process, timeout: null}]",
        "--data.validation", "null", "--model.warmup", "null", "--save_every", "1",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "FOREVER": str(tmp_path / "pids")}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert eventually((tmp_path / "pids").exists, 60)
        found = [int(each) for each in (tmp_path / "pids").read_text().split()]
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert time.monotonic() - began < 15
        assert process.returncode == 130, error
        assert "stopped" in error
        assert not any(map(alive, found))
    finally:
        process.kill()


def test_nonsense_on_the_pipe_is_a_crash(episodes: Any) -> None:
    rows = episodes(["fills_the_pipe", "setups"])
    scores = run(working(per_call="row", on_failure="abstain", timeout=20.0), rows)
    assert scores.raw["x"] == [None, 1.0]
    assert scores.counts["x"]["failures/crashed"] == 1.0


def test_what_cannot_be_sent_is_refused_before_weights_load() -> None:
    entry = RewardEntry(reward=FunctionReward(function=lambda completions: [1.0]), isolation="process")
    text = "model.rewards.0.isolation: 'process' is set, but reward 'lambda' cannot be sent to a worker process .*; move it to"
    with pytest.raises(ConfigError, match=text):
        check_calls([entry], "model.rewards")


def scripted(completions: Sequence[str]) -> list[float]:
    return [1.0]


def test_what_is_defined_in_the_script_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    function = functools.partial(scripted)
    monkeypatch.setattr(scripted, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "scripted", scripted, raising=False)
    with pytest.raises(
        ConfigError, match="is defined in the script that is run, which a worker does not import; move it"
    ):
        check_calls([RewardEntry(reward=FunctionReward(function=function), isolation="process")], "model.rewards")


def test_arguments_that_cannot_be_sent_are_a_failure(episodes: Any) -> None:
    rows = episodes(["a"], answer=[lambda: None])
    entry = RewardEntry(reward=FunctionReward(function=answering), name="x", isolation="process", on_failure="abstain")
    scores = run(entry, rows)
    assert scores.counts["x"]["failures/raised"] == 1.0


def answering(completions: Sequence[str], answer: Sequence[Any]) -> list[float]:
    return [1.0] * len(completions)
