"""What one run may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one run. Beyond any of them it is refused more, or killed with all that it started."""

    wall_seconds: float = 5.0
    """Time from the moment the sandbox stands."""
    cpu_seconds: int = 5
    """Processor time of a process; ``processes`` times as much in all, never more than time goes by on the cores."""
    memory_bytes: int = 256 << 20
    """Address space of a process; memory is at most ``processes`` times this, and ``disk_bytes``."""
    disk_bytes: int = 16 << 20
    """Bytes in its folder, which is memory too; also the largest file."""
    output_bytes: int = 64 << 10
    """Bytes on its standard output and error together."""
    processes: int = 1
    """Processes and threads at once, its own first one among them."""
    open_files: int = 64
    """Descriptors of a process."""
    files: int = 1024
    """Files and folders in its folder."""
