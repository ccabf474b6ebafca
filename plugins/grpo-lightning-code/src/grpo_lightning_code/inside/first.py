"""The first process of a sandbox (number 1 in its process namespace): when it ends, all others are killed."""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from grpo_lightning_code.inside import filesystem, kernel
from grpo_lightning_code.inside.judge import judge
from grpo_lightning_code.inside.privileges import become_unprivileged, limit_process
from grpo_lightning_code.inside.reporting import Report

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": filesystem.HOME,
    "TMPDIR": filesystem.HOME,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
BOOTSTRAP = (
    "import sys, types; package = types.ModuleType('grpo_lightning_code'); package.__path__ = [sys.argv[1]]; "
    "sys.modules[package.__name__] = package; from importlib import import_module; "
    "import_module('grpo_lightning_code.inside.' + sys.argv[2]).main()"
)
"""Imports a module of this folder without the package around it, which would import the trainer."""
_OWN_MEMORY = 256 << 20


def main(
    job: dict[str, Any], report: Report, *, owner: int, uid: int | None, others: int, parent_alive: int
) -> NoReturn:
    """Build the sandbox around this process, run the job in it and end; never returns."""
    step = "session"
    try:
        os.setsid()
        step = "file system"
        limits = job["limits"]
        filesystem.build_root(
            show=job["show"],
            harness=job["harness"],
            owner=owner,
            disk_bytes=limits["disk_bytes"],
            files=limits["files"],
        )
        kernel.set_host_name("sandbox")
        step = "privileges"
        become_unprivileged(uid=uid)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL, "pdeathsig")  # changing the id has cleared it
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0, "dumpable")
        if select.select([parent_alive], [], [], 0)[0]:
            os._exit(1)
        bound_judge(limits)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)  # the kernel keeps unhandled signals of the candidate from number 1
        os.umask(0o077)
    except BaseException as error:
        report.refuse(step, error)
        os._exit(1)
    try:
        report.send({"ready": True})
        report.send(judge(job, _starter(job, report, others)))
    except BaseException as error:
        report.send({"status": "error", "detail": f"the judge failed: {type(error).__name__}: {error}"[:500]})
    os._exit(0)


def _starter(job: dict[str, Any], report: Report, others: int) -> Callable[[str, tuple[int, ...]], int]:
    """What starts the candidate's process: the name of a module here and descriptors to hand over, to its process id."""

    def start(module: str, descriptors: tuple[int, ...]) -> int:
        limits = job["limits"]
        child = os.fork()
        if child:
            _let_go(limits)
            return child
        try:
            os.setsid()
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)
            limit_process(limits, processes=limits["processes"] + others)
            arguments = [filesystem.HARNESS, module, *map(str, descriptors)]
            flags = [
                "-P",
                "-s",
                "-S",
                "-X",
                "utf8",
            ]  # not -I: the hash seed makes the order of sets the same every time
            os.execve(job["python"], [job["python"], *flags, "-c", BOOTSTRAP, *arguments], ENVIRONMENT)
        except BaseException as error:
            report.refuse("limits", error)
        os._exit(1)

    return start


def bound_judge(limits: dict[str, int]) -> None:
    """Bound memory and time of this process before it compiles what the candidate wrote; the candidate's own are lower."""
    memory, seconds = limits["memory_bytes"] + _OWN_MEMORY, limits["cpu_seconds"] + 2
    for kind, soft, hard in ((resource.RLIMIT_AS, memory, memory), (resource.RLIMIT_CPU, seconds, seconds + 1)):
        _, present = resource.getrlimit(kind)
        if present != resource.RLIM_INFINITY:
            soft, hard = min(soft, present), min(hard, present)
        resource.setrlimit(kind, (soft, hard))


def _let_go(limits: dict[str, int]) -> None:
    """Close the candidate's streams here, and limit this process too: it reads what the candidate sends."""
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    own = {**limits, "memory_bytes": limits["memory_bytes"] + _OWN_MEMORY, "cpu_seconds": limits["cpu_seconds"] + 2}
    limit_process(own, processes=0)
