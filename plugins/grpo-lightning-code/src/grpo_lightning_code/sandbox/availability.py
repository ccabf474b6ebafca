"""Proof that this machine holds the limits, from a program that tries to break them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

from grpo_lightning.errors import ConfigError
from grpo_lightning_code.sandbox.limits import Limits
from grpo_lightning_code.sandbox.outcome import SandboxError
from grpo_lightning_code.sandbox.run import Job, Refused, run

_FIX = {
    "linux": "use Linux 5.14 or newer",
    "namespaces": (
        "run as root with CAP_SYS_ADMIN, or as a user who may make user namespaces (sysctl kernel.unprivileged_userns_clone "
        "and kernel.apparmor_restrict_unprivileged_userns; in a container, its seccomp profile)"
    ),
    "file system": "use Linux 5.14 or newer, in a container one that allows mounts in namespaces",
    "privileges": "use Linux on x86_64 or aarch64 with seccomp",
    "processes": "run as root with CAP_SETUID, or as a user of Linux 5.14 or newer",
}
_OTHER_FIX = "do not run code that nobody has read on this machine"

_PROBE = """
import json, os, signal, socket
found = {"uid": os.getuid()}
children = []
try:
    while len(children) < MOST + 8:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError:
    pass
found["processes"] = 1 + len(children)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

def refused(attempt):
    try:
        attempt()
    except (OSError, MemoryError):
        return True
    return False

def fill():
    with open("full", "wb") as stream:
        for _ in range(DISK // 65536 + 2):
            stream.write(bytes(65536))
            stream.flush()

found["network"] = refused(lambda: socket.socket(socket.AF_INET))
found["memory"] = refused(lambda: bytearray(MEMORY))
found["disk"] = refused(fill)
found["write"] = all(refused(lambda: open(f"{place}/x", "w")) for place in ("/", "/usr/lib", "/harness/inside", "/dev"))
found["root"] = sorted(os.listdir("/"))
found["id"] = refused(lambda: os.setuid(0)) and refused(lambda: os.chroot("."))
print(json.dumps(found))
"""
_VISIBLE_ROOT = {"box", "dev", "etc", "harness", "lib", "lib64", "tmp", "usr"}


class SandboxUnavailable(ConfigError):  # noqa: N818 - what is unavailable is the point
    """This machine cannot hold a limit that the sandbox promises; no code runs."""


@lru_cache
def require_sandbox(limits: Limits) -> None:
    """Run a program that tries to break each limit, once a process.

    Raises:
        SandboxUnavailable: If the sandbox cannot be made, or a limit does not hold: which, why, and what would help.
    """
    if sys.platform != "linux":
        raise _unavailable("linux", f"this is {sys.platform}")
    values = {"MOST": limits.processes, "DISK": limits.disk_bytes, "MEMORY": limits.memory_bytes}
    source = "".join(f"{name} = {value}\n" for name, value in values.items()) + _PROBE
    roomy = replace(limits, wall_seconds=30.0, cpu_seconds=20, output_bytes=1 << 16)
    try:
        outcome = run(Job(source=source), roomy)
    except Refused as error:
        raise _unavailable(error.step, error.reason) from None
    except (SandboxError, OSError) as error:
        raise _unavailable("start", str(error)) from None
    if outcome.status != "ended":
        raise _unavailable("start", f"{outcome.status}: {outcome.detail}")
    for name, reason in _broken(json.loads(outcome.stdout), limits):
        raise _unavailable(name, reason)


def _broken(found: dict[str, Any], limits: Limits) -> list[tuple[str, str]]:
    """Limits that the probe broke, and how."""
    foreign = set(found["root"]) - _VISIBLE_ROOT - {_top(sys.base_prefix), _top(os.path.realpath(sys.executable))}
    checks = {
        "processes": (found["processes"] == limits.processes, f"{found['processes']} ran at once"),
        "network": (found["network"], "a socket could be opened"),
        "memory": (found["memory"], f"{limits.memory_bytes} bytes could be taken at once"),
        "disk": (found["disk"], f"more than {limits.disk_bytes} bytes could be written"),
        "write": (found["write"], "a file outside its folder could be written"),
        "file system": (not foreign, f"/{', /'.join(sorted(foreign))} can be seen"),
        "user": (found["uid"] != 0 and found["id"], "it can be or become root"),
    }
    return [(name, reason) for name, (holds, reason) in checks.items() if not holds]


def _top(path: str) -> str:
    return path.split("/")[1]


def _unavailable(step: str, reason: str) -> SandboxUnavailable:
    return SandboxUnavailable("sandbox", step, f"cannot be had on this machine ({reason})", _FIX.get(step, _OTHER_FIX))
