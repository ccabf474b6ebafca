"""Giving up every privilege, and the limits of a process."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

from grpo_lightning_code.inside import kernel
from grpo_lightning_code.inside.system_calls import build_filter


def become_unprivileged(*, uid: int | None) -> None:
    """Drop all capabilities for good, become ``uid`` (``None``: stay), and install the system call filter.

    Raises:
        OSError: If a step is refused.
    """
    kernel.drop_capabilities()
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    kernel.give_up_capabilities()
    kernel.prctl(
        kernel.PR_SET_THP_DISABLE, 1, "thp_disable"
    )  # a huge page costs the machine more than a process is charged
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1, "no_new_privs")
    kernel.install_filter(build_filter())


def limit_process(limits: Mapping[str, int], *, processes: int) -> None:
    """Set the limits of this process and of all that it starts.

    Args:
        limits: The fields of ``sandbox.limits.Limits``.
        processes: Processes and threads that its user may have, with those that are not the candidate's.
    """
    for kind, soft, hard in (
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_FSIZE, limits["disk_bytes"], limits["disk_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_CORE, 1, 1),  # 1, not 0: only 1 also keeps a core from a program that collects them
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_RTPRIO, 0, 0),
        (resource.RLIMIT_SIGPENDING, 256, 256),
        (resource.RLIMIT_STACK, 8 << 20, 8 << 20),
        (resource.RLIMIT_CPU, limits["cpu_seconds"], limits["cpu_seconds"] + 1),
        (resource.RLIMIT_AS, limits["memory_bytes"], limits["memory_bytes"]),
    ):
        _, present = resource.getrlimit(kind)
        if present != resource.RLIM_INFINITY:  # an unprivileged process may only go down
            soft, hard = min(soft, present), min(hard, present)
        resource.setrlimit(kind, (soft, hard))
