from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from faulty_server import Fault, FaultyServer
from grpo_lightning_judge.toy_server import ToyJudge, ToyServer


@pytest.fixture
def faulty() -> Iterator[Callable[..., FaultyServer]]:
    servers: list[FaultyServer] = []

    def start(*plan: Fault) -> FaultyServer:
        servers.append(FaultyServer(*plan))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def toy() -> Iterator[Callable[..., ToyServer]]:
    servers: list[ToyServer] = []

    def start(*, delay: float = 0.0, **judge: object) -> ToyServer:
        servers.append(ToyServer(ToyJudge(**judge), delay=delay))  # type: ignore[arg-type]
        return servers[-1]

    yield start
    for server in servers:
        server.close()
