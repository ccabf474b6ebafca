from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from grpo_lightning_code.sandbox import Limits, SandboxUnavailable, availability, require_sandbox, run
from grpo_lightning_code.sandbox.private_uid import FIRST, LAST, private_uid

from grpo_lightning.errors import ConfigError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is what is tried")
REFUSED = """
import sys
from grpo_lightning_code.inside import kernel, system_calls
from grpo_lightning_code.sandbox import Limits, require_sandbox
del system_calls._REFUSED["socket"]
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
kernel.install_filter(system_calls.build_filter())
try:
    require_sandbox(Limits())
except ValueError as error:
    print(type(error).__name__, error)
"""
TRIED = """
from grpo_lightning_code.sandbox import Job, Limits, require_sandbox, run
require_sandbox(Limits(processes=3))
print(run(Job(source="import os; print(os.getuid())"), Limits()).stdout)
"""


@pytest.mark.parametrize("processes", [1, 5])
def test_this_machine_holds_the_limits(processes: int) -> None:
    require_sandbox(Limits(processes=processes))


def test_where_namespaces_are_refused_it_does_not_start() -> None:
    said = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, timeout=60)
    assert said.stdout.startswith("SandboxUnavailable sandbox: 'namespaces' cannot be had on this machine"), said
    assert "user namespaces" in said.stdout


@as_root
def test_where_root_has_no_user_id_of_its_own_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel does not hold root to a number of processes: the probe finds that out."""

    @contextlib.contextmanager
    def nobody_special() -> Iterator[None]:
        yield None

    monkeypatch.setattr(sys.modules[run.__module__], "private_uid", nobody_special)
    with pytest.raises(
        SandboxUnavailable, match=r"sandbox: 'processes' cannot be had on this machine \(1\d ran at once"
    ):
        require_sandbox(Limits(processes=2, wall_seconds=4.75))  # limits that nobody else asks for: answers are kept


@as_root
def test_root_without_the_right_to_mount_uses_a_user_namespace() -> None:
    for lacking in ("-sys_admin", "-sys_admin,-sys_resource,-dac_override"):
        command = ["setpriv", f"--bounding-set={lacking}", f"--inh-caps={lacking}", sys.executable, "-c", TRIED]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if "setpriv" in said.stderr:
            pytest.skip(said.stderr)
        assert said.stdout == "b'1000\\n'\n" or "SandboxUnavailable" in said.stderr, said


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"processes": 9}, "processes"),
        ({"network": False}, "network"),
        ({"memory": False}, "memory"),
        ({"disk": False}, "disk"),
        ({"write": False}, "write"),
        ({"uid": 0}, "user"),
        ({"id": False}, "user"),
        ({"root": ["box", "home"]}, "file system"),
    ],
)
def test_each_broken_limit_is_named(broken: dict[str, object], named: str) -> None:
    found = {
        "uid": 7,
        "processes": 4,
        "network": True,
        "memory": True,
        "disk": True,
        "write": True,
        "id": True,
        "root": [],
    }
    limits = Limits(processes=4)
    assert availability._broken(found, limits) == []
    assert [name for name, _ in availability._broken({**found, **broken}, limits)] == [named]


def test_error_stops_a_run_and_says_what_helps() -> None:
    error = availability._unavailable("processes", "9 ran at once")
    assert isinstance(error, ConfigError)
    assert "run as root with CAP_SETUID, or as a user of Linux 5.14 or newer" in str(error)


@as_root
def test_user_ids_are_not_shared() -> None:
    with private_uid() as one, private_uid() as other:
        assert one is not None
        assert other is not None
        assert one != other
        assert FIRST <= min(one, other) <= max(one, other) <= LAST
