from __future__ import annotations

import os
import subprocess
import sys

import pytest

from grpo_lightning.rewards.process_tree import descendants, kill_group


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_descendants_of_descendants_are_found_until_they_end() -> None:
    script = (
        "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True); print(); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, **pipes)  # type: ignore[call-overload]
    try:
        child.stdout.readline()
        below = descendants(child.pid)
        assert len(below) == 1
        assert {child.pid, *below} <= set(descendants(os.getpid()))
        os.kill(below[0], 9)
    finally:
        kill_group(child.pid)
        child.communicate()
    assert descendants(child.pid) == []


def test_a_group_that_is_gone_is_no_error() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    kill_group(child.pid)
