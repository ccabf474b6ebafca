"""What watches a call: what the process shares, what is opened, how long it takes, what it imports."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from grpo_lightning.testing import Nonconformity
from grpo_lightning.testing.clean_import import heavy_imports
from grpo_lightning.testing.global_state import preserved_globals, unchanged_globals
from grpo_lightning.testing.opened import opened
from grpo_lightning.testing.time_limit import time_limit

CHANGES: dict[str, Callable[[], object]] = {
    "torch's random state": lambda: torch.rand(1),
    "numpy's random state": lambda: np.random.rand(),
    "the random state of Python's random": random.random,
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "grad mode": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "torch's deterministic mode": lambda: torch.use_deterministic_algorithms(True),
    "torch's number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "the precision of float32 matmuls": lambda: torch.set_float32_matmul_precision("medium"),
    "the current folder": lambda: os.chdir("/"),
    "the environment variables": lambda: os.environ.update(GRPO_LIGHTNING_TEST_OF_THE_KIT="1"),
    "the signal handlers": lambda: signal.signal(signal.SIGUSR1, lambda *_: None),
    "the default timeout of sockets": lambda: socket.setdefaulttimeout(9.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_told_and_put_back(name: str) -> None:
    with pytest.raises(Nonconformity, match=f"the body changed {name}"), unchanged_globals("the body"):
        CHANGES[name]()
    with unchanged_globals("what was put back"):
        pass


def test_an_exception_goes_on_and_all_is_put_back() -> None:
    def changes_and_fails() -> None:
        os.environ["GRPO_LIGHTNING_TEST_OF_THE_KIT"] = "1"
        raise KeyError

    before = dict(os.environ)
    with pytest.raises(KeyError), unchanged_globals("the body"):
        changes_and_fails()
    assert dict(os.environ) == before


def test_preserving_names_what_changed() -> None:
    with preserved_globals() as changed:
        torch.rand(1)
        os.chdir("/")
    assert changed == ["torch's random state", "the current folder"]


def test_files_folders_processes_and_threads_are_seen(tmp_path: Path) -> None:
    with opened() as events:
        (tmp_path / "a").write_text("a")
        subprocess.run([sys.executable, "-c", ""], check=True)
        goes_on = threading.Event()
        threading.Thread(target=goes_on.wait, name="waiting").start()
    goes_on.set()
    told = "\n".join(events)
    assert f"it opened the file '{tmp_path}/a'" in told
    assert f"it started '{sys.executable}'" in told
    assert "it started the thread 'waiting'" in told


def test_what_nobody_watches_and_what_imports_read_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_that_nobody_imported.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with opened() as events:
        __import__("module_that_nobody_imported")
    (tmp_path / "a").write_text("a")
    assert events == []


def test_a_limit_of_time_ends_a_loop_and_leaves_the_alarm_as_it_was() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    message = r"It ends\. Found: it took more than 0\.05 seconds\. To mend it: stop\."
    with pytest.raises(Nonconformity, match=message), time_limit(0.05, "It ends", "stop"):
        time.sleep(10)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] >= 0


def test_imports_are_seen_in_a_process_of_their_own() -> None:
    after = ("grpo_lightning.kinds",)
    assert heavy_imports("helpers.heavy_reward", after) == ["scipy"]
    assert heavy_imports("grpo_lightning.rewards.regex", after) == []
    assert "No module named 'there_is_none'" in str(heavy_imports("there_is_none", after))
    assert heavy_imports("grpo_lightning.rewards.regex", after) == [], "a failed import does not end the process"
