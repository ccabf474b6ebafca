"""What stands around a hostile program: files that must not change, servers that must not hear, processes that must go."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
from pathlib import Path

from grpo_lightning_code.sandbox import Job, Limits, Outcome, run
from hostile_programs import Attack

SECRET = "HOSTILE_TEST_SECRET"
ENDLESS_SECONDS, ROOMY_SECONDS = 2.0, 15.0
"""Time for a program that only a limit ends, and for one that ends by itself, on a machine however busy."""
LIMITS = {"cpu_seconds": 1, "memory_bytes": 128 << 20, "disk_bytes": 4 << 20}
_PACKAGE = Path(__file__).parent.parent


class Setting:
    """A folder with a canary, a listening TCP server, two listening Unix sockets, and a secret in the environment.

    Args:
        folder: An empty folder outside of every sandbox.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.canary = folder, folder / "canary"
        self.canary.write_text("alive")
        self.servers = [socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
        self._short = tempfile.TemporaryDirectory(dir="/tmp")  # the path of a socket has at most 108 characters
        self.unix, self.abstract = f"{self._short.name}/unix", f"hostile-test-{os.getpid()}"
        for server, address in zip(self.servers, (("127.0.0.1", 0), self.unix, f"\0{self.abstract}"), strict=True):
            server.bind(address)
            server.listen()
            server.setblocking(False)
        os.environ[SECRET] = "secret"
        self.before, self.present = self.state(), sandbox_processes()

    def close(self) -> None:
        """Close the servers and take the secret away."""
        for server in self.servers:
            server.close()
        self._short.cleanup()
        os.environ.pop(SECRET, None)

    def attack(self, attack: Attack) -> Outcome:
        """Run a hostile program."""
        words = {
            "canary": self.canary,
            "folder": self.folder,
            "port": self.servers[0].getsockname()[1],
            "unix": self.unix,
            "abstract": self.abstract,
            "secret": SECRET,
            "parent": os.getpid(),
        }
        source = attack.source
        for name, value in words.items():
            source = source.replace(f"@{name}@", str(value))
        seconds = ENDLESS_SECONDS if "timeout" in attack.statuses else ROOMY_SECONDS
        limits = Limits(processes=attack.processes, wall_seconds=seconds, **LIMITS)
        return run(Job(source=source, test=attack.test), limits)

    def state(self) -> dict[str, str]:
        """Hashes of the files that must not change: the canary's folder and the whole package with its tests."""
        files = [*self.folder.iterdir(), *_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.toml")]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}

    def heard(self) -> bool:
        """Whether anything has connected to a server."""
        for server in self.servers:
            try:
                server.accept()
            except BlockingIOError:
                continue
            return True
        return False

    def left_processes(self) -> set[int]:
        """Processes of sandboxes that were not there before and that do not go away within two seconds."""
        left = sandbox_processes() - self.present
        ends = time.monotonic() + 2
        while left and time.monotonic() < ends:
            time.sleep(0.05)
            left &= sandbox_processes()
        return left


def sandbox_processes() -> set[int]:
    """Process ids of launchers and of what they started."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"grpo_lightning_code.inside." in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return found
