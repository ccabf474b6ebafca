"""A worker process of a reward: its arguments are the file descriptors REQUESTS, REPLIES and LIFE.

Two processes. This one, the keeper, runs no code of a reward: it waits until the run closes its end of LIFE (as it does when
it is killed) or the other process ends, then kills that one and all that it started. The other one unpickles the reward and
answers calls. Arguments arrive pickled; scores go back as JSON, so that the run executes nothing that a worker wrote.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from typing import Any

from grpo_lightning.rewards import process_tree

POLL_SECONDS = 0.5


def main(arguments: Sequence[str]) -> int:
    """Keep one process that answers calls, and return its exit code."""
    requests, replies, life = map(int, arguments)
    for pipe in (requests, replies, life):
        os.set_inheritable(pipe, False)
    run = os.getppid()
    process_tree.adopt_orphans()
    child = os.fork()
    if child == 0:
        os.setsid()
        process_tree.die_with_parent()
        os.close(life)
        from grpo_lightning.rewards.serving import serve

        serve(requests, replies)
        os._exit(0)
    os.close(requests)
    os.close(replies)
    return _keep(child, life, run)


def _keep(child: int, life: int, run: int) -> int:
    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.set_wakeup_fd(wake_in)
    status: int | None = None
    while status is None and os.getppid() == run:
        ready, _, _ = select.select([life, wake_out], [], [], POLL_SECONDS)
        if wake_out in ready:
            os.read(wake_out, 4096)
        status = _status(child)
        if life in ready:
            break
    process_tree.kill_descendants(child)
    return 0 if status is None else status


def _nothing(number: int, frame: Any) -> None:
    """A handler, so that the signal reaches the wakeup descriptor."""


def _status(child: int) -> int | None:
    """How the child ended, as an exit code, minus a signal's number; orphans that ended are taken off the list."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def end(code: int) -> None:
    """End as the child did: by its exit code, or by the signal that killed it."""
    if code < 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
