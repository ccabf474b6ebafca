"""One run of a candidate, in a sandbox that is made for it and gone after it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import IO, Any, cast

from grpo_lightning_code.inside.first import BOOTSTRAP
from grpo_lightning_code.sandbox.limits import Limits
from grpo_lightning_code.sandbox.outcome import Outcome, SandboxError, Status
from grpo_lightning_code.sandbox.private_uid import private_uid
from grpo_lightning_code.sandbox.pump import Pump, Stop
from grpo_lightning_code.sandbox.visible import interpreter, package_folder, visible_paths

_START_SECONDS = 30.0
_KILL_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to run."""

    source: str
    """The candidate."""
    stdin: bytes = b""
    """Standard input of a program."""
    test: dict[str, Any] | None = None
    """``{"source": statements}`` or ``{"function", "args", "kwargs", "expected", "tolerance"}``; ``None`` runs the
    candidate as a program."""


class Refused(SandboxError):  # noqa: N818 - its message says what was
    """A step of making the sandbox that the machine refused."""

    def __init__(self, step: str, reason: str) -> None:
        self.step, self.reason = step, reason
        super().__init__(f"the sandbox could not be set up ({step}: {reason})")


def run(job: Job, limits: Limits) -> Outcome:
    """Run ``job`` in a new sandbox, and return when every process of it is gone.

    May be called from any thread, many at once. Nothing is left on the machine: namespaces, mounts and memory go with
    the processes, and these die with the calling thread.

    Raises:
        SandboxError: If the sandbox cannot be made.
    """
    began = time.monotonic()
    with private_uid() as uid:
        messages, stop, pump = _drive(_describe_job(job, limits, uid), job.stdin, limits)
    told = {key: value for message in messages for key, value in message.items()}
    if "refused" in told:
        raise Refused(told["refused"], told["reason"])
    if "ready" not in told:
        said = pump.received["stderr"].decode("utf-8", "replace").strip().rpartition("\n")[2]
        took = f"within {_START_SECONDS:g} s" if stop == "time" else "at all"
        raise SandboxError(f"the sandbox did not start {took}: {said or 'its launcher ended'}")
    seconds = time.monotonic() - began
    stdout, stderr = (bytes(pump.received[name])[: limits.output_bytes] for name in ("stdout", "stderr"))
    if stop == "closed" and "status" in told:
        return _ended(told, stdout, stderr, seconds)
    reasons: dict[Stop, tuple[Status, str]] = {
        "time": ("timeout", f"killed after {limits.wall_seconds:g} s"),
        "output": ("output", f"killed after more than {limits.output_bytes} bytes of output"),
        "closed": ("killed", "the first process of the sandbox was ended"),
    }
    status, detail = reasons[stop]
    return Outcome(status=status, detail=detail, stdout=stdout, stderr=stderr, seconds=seconds)


def _ended(told: dict[str, Any], stdout: bytes, stderr: bytes, seconds: float) -> Outcome:
    status, detail, code = told["status"], told.get("detail", ""), told.get("exit")
    if status == "ended" and code != 0:
        last = stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:500]
        status, detail = ("memory" if last.startswith("MemoryError") else "error"), last or f"exit code {code}"
    return Outcome(
        status=cast(Status, status),
        detail=detail,
        exit_code=code,
        stdout=stdout,
        stderr=stderr,
        syntax_ok=told.get("syntax", True),
        seconds=seconds,
    )


def _describe_job(job: Job, limits: Limits, uid: int | None) -> bytes:
    description = {
        "source": job.source,
        "test": job.test,
        "limits": asdict(limits),
        "uid": uid,
        "python": interpreter(),
        "show": visible_paths(),
        "harness": f"{package_folder()}/inside",
    }
    return json.dumps(description).encode()


def _drive(description: bytes, stdin: bytes, limits: Limits) -> tuple[list[dict[str, Any]], Stop, Pump]:
    """Start a launcher, move its streams until its end or a limit, and see that all of it is gone."""
    messages: list[dict[str, Any]] = []

    def on_report(line: bytes) -> float | None:
        messages.append(json.loads(line))
        return time.monotonic() + limits.wall_seconds if "ready" in messages[-1] else None

    with _launcher() as (process, job_in, report_out):
        streams = cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
        pump = Pump(
            feed={job_in: description, streams[0]: stdin},
            drain={"stdout": streams[1], "stderr": streams[2], "report": report_out},
            most=limits.output_bytes,
            on_report=on_report,
        )
        stop = pump.run(time.monotonic() + _START_SECONDS)
        if stop != "closed":
            process.terminate()  # the launcher kills the sandbox, and ends when all of it is gone
            pump.finish(_KILL_SECONDS)
        pump.close()
    return messages, stop, pump


@contextlib.contextmanager
def _launcher() -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A launcher process with the ends of its two further pipes; however this is left, it is dead after."""
    job_read, job_write = os.pipe()
    report_read, report_write = os.pipe()
    with contextlib.ExitStack() as stack:
        job_in = stack.enter_context(open(job_write, "wb", buffering=0))
        report_out = stack.enter_context(open(report_read, "rb", buffering=0))
        try:
            command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", BOOTSTRAP, package_folder(), "launcher"]
            process = subprocess.Popen(
                [*command, str(job_read), str(report_write)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(job_read, report_write),
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(job_read)
            os.close(report_write)
        try:
            yield process, job_in, report_out
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
