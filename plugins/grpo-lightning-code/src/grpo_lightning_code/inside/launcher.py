"""The process between the trainer and the sandbox: it makes the namespaces, starts their first process and reports.

It is started as ``python -I -S -c BOOTSTRAP FOLDER launcher JOB REPORT`` with two file descriptors: it reads a job (JSON)
from the one and writes lines of JSON to the other. It dies with the thread that started it, and all it started with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from types import FrameType
from typing import Any

from grpo_lightning_code.inside import first, kernel
from grpo_lightning_code.inside.reporting import Report

_INNER_ID = 1000
"""Own id inside a user namespace."""
_NAMESPACES = (
    kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)  # fmt: skip


def main() -> None:
    """Run one job to its end; the exit status says nothing, the report says all."""
    job_in, report_out = int(sys.argv[3]), int(sys.argv[4])
    os.set_inheritable(job_in, False)
    os.set_inheritable(report_out, False)
    report = Report(report_out)
    _die_with_parent(report_out)
    with os.fdopen(job_in, "rb") as stream:
        job: dict[str, Any] = json.loads(stream.read())
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # when the machine runs out of memory, this goes first
    try:
        owner, uid, others = _enter_namespaces(job["uid"])
    except OSError as error:
        report.refuse("namespaces", error)
        return
    _die_with_parent(report_out)
    alive, keep_alive = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(keep_alive)
        first.main(job, report, owner=owner, uid=uid, others=others, parent_alive=alive)
    os.close(alive)
    signal.signal(signal.SIGTERM, lambda *_: _kill(child))
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)  # returns when every process of the namespace is gone
    report.send({"gone": os.waitstatus_to_exitcode(status)})


def _kill(child: int, _frame: FrameType | None = None) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def _die_with_parent(report: int) -> None:
    """Be killed when the starting thread ends; if it has ended already, its end of the report is closed."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL, "pdeathsig")
    watch = select.poll()
    watch.register(report, select.POLLERR)
    if watch.poll(0):
        os._exit(1)


def _enter_namespaces(own_uid: int | None) -> tuple[int, int | None, int]:
    """Make the namespaces, with a user namespace where the rights for the others come from nowhere else.

    Args:
        own_uid: Id that is used by no one else, to change to; ``None`` where this process cannot change its id.

    Returns:
        Owner of the sandbox's files as seen inside, id still to change to, and how many processes of that id are not
        the candidate's.

    Raises:
        OSError: If the machine refuses.
    """
    if own_uid is not None:
        try:
            kernel.unshare(_NAMESPACES)
        except PermissionError:  # root without CAP_SYS_ADMIN, as in many containers
            os.setgroups([])
            os.setresgid(own_uid, own_uid, own_uid)
            os.setresuid(own_uid, own_uid, own_uid)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1, "dumpable")
        else:
            return own_uid, own_uid, 1
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(_NAMESPACES | kernel.CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INNER_ID} {uid} 1"),
        ("gid_map", f"{_INNER_ID} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)
    return _INNER_ID, None, 2
