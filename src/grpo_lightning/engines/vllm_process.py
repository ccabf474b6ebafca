"""A server of vLLM that a run starts itself, in vLLM's own environment."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
BACKEND = "grpo_lightning_files"
"""The transport that ``plugins/grpo-lightning-vllm`` registers with vLLM."""


def server_command(python: str, model: Path, port: int, arguments: Mapping[str, Any]) -> list[str]:
    """The command that starts a server with what training needs of it.

    Args:
        python: Interpreter of vLLM's environment.
        model: Folder of a model in Hugging Face format.
        port: Where it listens, on this machine only.
        arguments: Further arguments by name, such as ``gpu_memory_utilization``; ``True`` for a flag alone.
    """
    words = [python, "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    words += ["--enable-scale-out", "--logprobs-mode", "processed_logprobs"]
    words += ["--weight-transfer-config", json.dumps({"backend": BACKEND})]
    for name, value in arguments.items():
        words.append(f"--{name.replace('_', '-')}")
        words += [] if value is True else [str(value)]
    return words


class ServerProcess:
    """A server's process, started again when it has died.

    Args:
        command: What starts it.
        folder: Where its output goes: ``vllm-PORT.log``.
        port: Where it listens.
    """

    def __init__(self, command: list[str], folder: Path, port: int) -> None:
        self.command, self.log, self.port = command, folder / f"vllm-{port}.log", port
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        """How often it was started."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def revive(self) -> None:
        """Start it if it does not run."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            if self._process is not None:
                log.warning("a server of vLLM ended with code %s and is started again; see %s",
                            self._process.returncode, self.log)  # fmt: skip
            self.starts += 1
            with self.log.open("ab") as output:
                self._process = subprocess.Popen(
                    self.command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=_environment(),
                    start_new_session=True,
                )  # fmt: skip

    def stop(self) -> None:
        """End it and all that it has started."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                return
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _environment() -> dict[str, str]:
    # The run's own rank variables would make vLLM join its processes.
    ranks = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in ranks}
    return kept | {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
