"""Several servers of vLLM: questions go to one that is free, and to another where one fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_lightning import preemption
from grpo_lightning.engines.vllm_process import ServerProcess
from grpo_lightning.engines.vllm_server import Answer, Server, ServerError
from grpo_lightning.errors import GRPOError

PAUSE = 0.5
"""Seconds before a server that failed is asked again."""


class _Member:
    def __init__(self, server: Server, process: ServerProcess | None) -> None:
        self.server, self.process = server, process
        self.asked = 0
        """Questions that it has not answered yet."""
        self.rests_until = 0.0
        self.version: str | None = None
        """Label of its weights, once known; forgotten when it fails, for it may have been started again."""
        self.updating = threading.Lock()


class ServerPool:
    """Asks whichever server has least to do.

    Args:
        servers: The servers.
        processes: The process of each that this run started itself; ``None`` for others.
        patience: Seconds that a question is asked again and again before the run stops.
    """

    def __init__(
        self, servers: Sequence[Server], processes: Sequence[ServerProcess | None], *, patience: float
    ) -> None:
        self._members = [_Member(*pair) for pair in zip(servers, processes, strict=True)]
        self.patience = patience
        self._lock = threading.Lock()
        self._weights: tuple[Path, str] | None = None
        self.retries = 0
        """Questions that were asked again."""

    @property
    def urls(self) -> list[str]:
        """Addresses of the servers."""
        return [member.server.url for member in self._members]

    def offer(self, path: Path, version: str) -> None:
        """New weights: every server takes them at once, or when it is asked next."""
        self._weights = (path, version)
        faults = []
        for member in self._members:
            try:
                self._bring_up_to_date(member)
            except ServerError as fault:
                self._failed(member)
                faults.append(f"{member.server.url}: {fault}")
        if len(faults) == len(self._members):
            self._wait_for_one(faults)

    def ask(self, tokens: Sequence[int], sampling: Mapping[str, Any]) -> list[Answer]:
        """Completions by the newest weights.

        Raises:
            GRPOError: If no server has answered for ``patience`` seconds.
            PreemptedError: If the run is asked to stop.
        """
        assert self._weights is not None
        end, last = time.monotonic() + self.patience, ""
        while True:
            preemption.check()
            member = self._take()
            try:
                self._bring_up_to_date(member)
                return member.server.generate(tokens, sampling, self._weights[1])
            except ServerError as fault:
                last = f"{member.server.url}: {fault}"
                self._failed(member)
                self.retries += 1
            finally:
                with self._lock:
                    member.asked -= 1
            if time.monotonic() > end:
                raise GRPOError(
                    f"model.engine: no server has answered for {self.patience:.0f} s; the last fault was {last}"
                )

    def close(self) -> None:
        """End what this run has started."""
        for member in self._members:
            member.server.close()
            if member.process is not None:
                member.process.stop()

    def _take(self) -> _Member:
        """The server with least to do; one that has failed just now only after a pause."""
        with self._lock:
            now = time.monotonic()
            awake = [member for member in self._members if member.rests_until <= now]
            chosen = min(awake or self._members, key=lambda member: (member.asked, member.rests_until))
            chosen.asked += 1
            rest = max(0.0, chosen.rests_until - now)
        time.sleep(min(rest, PAUSE))
        return chosen

    def _failed(self, member: _Member) -> None:
        with self._lock:
            member.version, member.rests_until = None, time.monotonic() + PAUSE
        if member.process is not None:
            member.process.revive()

    def _bring_up_to_date(self, member: _Member) -> None:
        assert self._weights is not None
        path, version = self._weights
        if member.version == version:
            return
        with member.updating:  # whoever comes second finds it done
            if member.version != version:
                if member.server.version() != version:
                    member.server.take(str(path), version)
                member.version = version

    def _wait_for_one(self, faults: Sequence[str]) -> None:
        end, told = time.monotonic() + self.patience, list(faults)
        while time.monotonic() < end:
            preemption.check()
            time.sleep(PAUSE)
            for member in self._members:
                try:
                    self._bring_up_to_date(member)
                except ServerError as fault:
                    self._failed(member)
                    told = [f"{member.server.url}: {fault}"]
                else:
                    return
        raise GRPOError(f"model.engine: no server has answered for {self.patience:.0f} s; {'; '.join(told)}")
