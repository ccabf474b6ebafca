"""What remains when the trainer is killed hard, and sandboxes of other users than root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest
from grpo_lightning_code import CodeTests
from hostile_setting import sandbox_processes

from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.testing.episodes import episodes

TESTS = Path(__file__).parent
SLEEPER = """
from concurrent.futures import ThreadPoolExecutor
from grpo_lightning_code.sandbox import Job, Limits, run
bomb = "import os, time\\nwhile True:\\n    try:\\n        os.fork()\\n    except OSError:\\n        time.sleep(0.1)"
with ThreadPoolExecutor(3) as pool:
    list(pool.map(lambda _: run(Job(source=bomb), Limits(wall_seconds=60.0, processes=6)), range(3)))
"""
NOBODY = 65534
AS_NOBODY = """
set -e
mount --bind "$1" "$2"
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p "$1"
mount --bind "$2" "$1"
shift 2
exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all "$@"
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")


def nobody(command: list[str], bind: Path) -> list[str]:
    """The command as the user nobody, for whom an interpreter below /root is made reachable."""
    if not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        pytest.skip("needs unshare, setpriv and mount of util-linux")
    if not sys.base_prefix.startswith("/root/"):
        return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *command]
    bind.mkdir()
    return ["unshare", "-m", "sh", "-c", AS_NOBODY, "sh", sys.base_prefix, str(bind), *command]


def test_no_process_outlives_a_trainer_that_is_killed() -> None:
    before = sandbox_processes()
    trainer = subprocess.Popen([sys.executable, "-c", SLEEPER])
    ends = time.monotonic() + 60
    while len(sandbox_processes() - before) < 3 * 6:  # three sandboxes with all the processes they may have
        assert time.monotonic() < ends, "the sandboxes did not start"
        time.sleep(0.05)
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    while left := sandbox_processes() - before:
        assert time.monotonic() < ends, left
        time.sleep(0.05)


def as_nobody(command: list[str], bind: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as nobody, with a home folder of its own."""
    own = {"HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    words, environment = nobody(command, bind), {**os.environ, **own}
    return subprocess.run(words, capture_output=True, text=True, timeout=110, cwd="/", env=environment)


@as_root
def test_every_hostile_program_as_an_ordinary_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    for parent in [home, *home.parents][:-1]:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    files = [str(TESTS / name) for name in ("test_hostile.py", "test_judge.py", "test_availability.py")]
    look = f"import pytest, grpo_lightning_code; [open(name) for name in {files!r}]"
    seen = as_nobody([sys.executable, "-c", look], tmp_path / "first", home)
    if seen.returncode != 0:
        pytest.skip(f"nobody cannot reach the interpreter or the sources: {seen.stderr[-300:]}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(home / "pytest")]
    done = as_nobody([*command, *files], tmp_path / "second", home)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "passed" in done.stdout


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_behind_the_firewall_of_rewards(isolation: Literal["thread", "process"]) -> None:
    """Calls that run at once, in threads and in worker processes; a call that is over time leaves no process."""
    before = sandbox_processes()
    columns = {"tests": [["assert f(2) == 4"]]}
    rows = episodes(columns, groups=3, members=2, texts=["def f(x): return 4", "def f(x): return 5"])
    reward = CodeTests(code="whole", seconds=30.0, workers=2)
    entry = RewardEntry(reward=reward, name="code", isolation=isolation, concurrency=2)
    with Firewall([entry]) as guarded:
        scores = guarded.scores(rows, update=0, stage="train")
    assert sorted(filter(None, scores.raw["code"])) == [1.0] * scores.raw["code"].count(1.0)
    assert {1.0, 0.0} == set(scores.raw["code"])
    slow = episodes(columns, groups=1, members=2, texts=["while True: pass"])
    slow_reward = CodeTests(code="whole", seconds=8.0)
    late = RewardEntry(reward=slow_reward, name="code", isolation=isolation, timeout=3.0, on_failure="abstain")
    with Firewall([late]) as guarded:
        assert guarded.scores(slow, update=0, stage="train").raw["code"] == [None, None]
    ends = time.monotonic() + 60  # a thread that was left behind ends with the limit of its test
    while left := sandbox_processes() - before:
        assert time.monotonic() < ends, left
        time.sleep(0.05)
