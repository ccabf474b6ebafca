"""What came of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from grpo_lightning.errors import GRPOError

Status = Literal["ended", "passed", "failed", "error", "timeout", "memory", "output", "killed"]
"""``ended``: a program ran to its end, its output is to be judged. ``passed`` and ``failed``: a test decided.
``error``: the code is broken, raised, exited early or talked nonsense. ``timeout``: wall or processor time. ``memory``:
it ran out of it. ``output``: it wrote too much. ``killed``: a signal ended it."""
STATUSES: tuple[str, ...] = get_args(Status)


class SandboxError(GRPOError, RuntimeError):
    """A sandbox that could not be set up for one run, on a machine where it could before."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run."""

    status: Status
    detail: str = ""
    """Why, in words: for logs, not for scores."""
    exit_code: int | None = None
    """Of the candidate's process, minus the signal that ended it; ``None`` where it was killed from outside."""
    stdout: bytes = b""
    """What it wrote, at most ``Limits.output_bytes``."""
    stderr: bytes = b""
    """The same of its error stream."""
    syntax_ok: bool = True
    """False where the source is no Python, so that every other run of it would end the same."""
    seconds: float = 0.0
    """From the start of the launcher to the end of the last process."""
