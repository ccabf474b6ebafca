"""Several servers of vLLM: questions go to one that is free, and to another where one fails."""

from __future__ import annotations

import fcntl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from grpo_lightning import preemption
from grpo_lightning.engines.vllm_process import ServerProcess
from grpo_lightning.engines.vllm_server import Answer, Server, ServerError, Weights
from grpo_lightning.errors import GRPOError

PAUSE = 0.5
"""Seconds before a server that failed is asked again."""
PATIENCE = 0.2
"""Seconds after which a run that waits for answers looks whether it is asked to stop."""
MOST = 256
"""Questions that are asked at once."""

Question = tuple[Sequence[int], Mapping[str, Any]]
"""Token ids to continue, and vLLM's sampling parameters."""


class _Member:
    def __init__(self, server: Server, process: ServerProcess | None) -> None:
        self.server, self.process = server, process
        self.asked = 0
        """Questions that it has not answered yet."""
        self.rests_until = 0.0
        self.weights: Weights | None = None
        """What it has, once known; forgotten when it fails, for it may have been started again."""
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
        self._weights: Weights | None = None
        self._closed = False
        self.retries = 0
        """Questions that were asked again."""

    @property
    def urls(self) -> list[str]:
        """Addresses of the servers."""
        return [member.server.url for member in self._members]

    def offer(self, weights: Weights) -> None:
        """New weights: every server takes them at once, or when it is asked next."""
        self._weights = weights
        faults = []
        for member in self._members:
            try:
                self._bring_up_to_date(member)
            except ServerError as fault:
                self._failed(member)
                faults.append(f"{member.server.url}: {fault}")
        if len(faults) == len(self._members):
            self._wait_for_one(faults)

    def answers(self, questions: Sequence[Question]) -> Iterator[tuple[int, list[Answer]]]:
        """Ask all at once: the index of each question with its answers, as they come.

        Raises:
            GRPOError: If no server has answered a question for ``patience`` seconds.
            PreemptedError: If the run is asked to stop.
        """
        todo, done = deque(enumerate(questions)), SimpleQueue[tuple[int, list[Answer] | Exception]]()

        def work() -> None:
            while todo:
                try:
                    index, (tokens, sampling) = todo.popleft()
                except IndexError:  # another one was faster
                    return
                try:
                    done.put((index, self.ask(tokens, sampling)))
                except Exception as error:
                    done.put((index, error))

        for _ in range(min(MOST, len(questions))):
            threading.Thread(target=work, daemon=True).start()  # a run that is left does not wait for what it has asked
        try:
            left = len(questions)
            while left:
                preemption.check()
                self._check_open()
                try:
                    index, found = done.get(timeout=PATIENCE)
                except Empty:
                    continue
                if isinstance(found, Exception):
                    raise found
                left -= 1
                yield index, found
        finally:
            todo.clear()

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
            self._check_open()
            member = self._take()
            try:
                self._bring_up_to_date(member)
                return member.server.generate(tokens, sampling, self._weights)
            except ServerError as fault:
                last = f"{member.server.url}: {fault}"
                self._check_open()
                self._failed(member)
                self.retries += 1
            finally:
                with self._lock:
                    member.asked -= 1
            if time.monotonic() > end:
                raise GRPOError(
                    f"model.engine: no server has answered for {self.patience:.0f} s; the last fault was {last}"
                )

    def _check_open(self) -> None:
        if self._closed:
            raise GRPOError("model.engine: the run is over, and what it still asked for is given up")

    def close(self) -> None:
        """End what this run has started, and asking with it."""
        self._closed = True
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
            member.weights, member.rests_until = None, time.monotonic() + PAUSE
        if member.process is not None:
            member.process.revive()

    def _bring_up_to_date(self, member: _Member) -> None:
        weights = self._weights
        assert weights is not None
        if member.weights == weights:
            return
        # Whoever comes second finds it done: another thread, or another process of the run.
        with member.updating, _alone(Path(weights.path).parent, member.server.url):
            if member.weights != weights:
                member.server.take(weights)
                member.weights = weights
        if member.process is not None:
            member.process.answered = True

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


@contextmanager
def _alone(folder: Path, url: str) -> Iterator[None]:
    """No two processes of a run give a server its weights at once: it would take half of each."""
    with (folder / f"{url.partition('://')[2].replace('/', '-')}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
