"""Generation by servers of vLLM, in processes and environments of their own."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from typing_extensions import override

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.engines.stopping import cut_at_stop
from grpo_lightning.engines.vllm_pool import ServerPool
from grpo_lightning.engines.vllm_process import ServerProcess, free_port, server_command
from grpo_lightning.engines.vllm_questions import orders
from grpo_lightning.engines.vllm_server import ADAPTER, Answer, Server, Weights
from grpo_lightning.engines.vllm_weights import write_adapter, write_weights
from grpo_lightning.errors import require, require_range
from grpo_lightning.policies.base import Policy

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Bounds on the rank of adapters that vLLM can be started with."""


class VLLM(Engine):
    """Asks one or several servers of vLLM; token ids go in and out, never texts.

    All members of a group that have one context are one request, so that its keys and values are computed once. Weights go
    to the servers as a file in a folder that they can read (``plugins/grpo-lightning-vllm`` in their environment), in
    ``dtype``; requests in progress are finished first, and what they have cached is dropped. Every completion says which
    weights sampled it, and one of others than asked for is asked again. A server that dies, is slow or answers by halves is
    left for another, or waited for.

    The log-probabilities are those of the distribution that was sampled from, in the arithmetic of the servers: the ratio to
    those of training is not 1 and wants a ``correction``. Draws are seeded by address, but what vLLM makes of a seed depends on
    what else it runs.

    Args:
        servers: Addresses of servers that run already.
        python: Interpreter of vLLM's environment, to start a server on this machine instead.
        count: Servers to start.
        dtype: Type of the weights that sample.
        arguments: Further arguments of servers that are started, by name.
        adapters: ``alone``: of a policy with LoRA, the adapter is what servers are given after every update, under a new name;
            ``merged``: all weights, with what the adapter adds to them, for adapters that vLLM cannot load.
        folder: Where weights are written for servers to read; by default a folder in memory, for servers on this machine.
        timeout: Seconds that one request may take.
        patience: Seconds that a request is asked again before the run stops, and that a server may take to start.
    """

    name = "vllm"
    addressed = False
    deterministic = False
    keeps_weights = True
    example: ClassVar[Mapping[str, Any]] = {"servers": ["http://127.0.0.1:9"]}

    def __init__(
        self,
        *,
        servers: list[str] | None = None,
        python: str | None = None,
        count: int = 1,
        dtype: str = "bfloat16",
        arguments: dict[str, Any] | None = None,
        adapters: Literal["alone", "merged"] = "alone",
        folder: str | None = None,
        timeout: float = 600.0,
        patience: float = 600.0,
    ) -> None:
        require(bool(servers) != bool(python), "servers", servers, "and python are both given, or neither is",
                "name servers that run, or the interpreter of vLLM's environment to start one")  # fmt: skip
        require(python is None or Path(python).exists(), "python", python, "does not exist",
                "give the interpreter of the environment in which vLLM is installed")  # fmt: skip
        require_range("count", count, low=1)
        require_range("timeout", timeout, low=0, low_open=True)
        require_range("patience", patience, low=0)
        require(dtype in ("bfloat16", "float16", "float32"), "dtype", dtype, "is no type of weights",
                "set bfloat16, float16 or float32")  # fmt: skip
        require(adapters in ("alone", "merged"), "adapters", adapters, "is no way of giving them to a server",
                "set alone or merged")  # fmt: skip
        self.servers, self.python, self.count, self.dtype = list(servers or []), python, count, dtype
        self.arguments, self.timeout, self.patience = dict(arguments or {}), timeout, patience
        self.adapters = adapters
        self.folder = Path(folder) if folder else None
        self._pool: ServerPool | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._run = ""
        self._given: tuple[int, int] | None = None
        self._weights: Weights | None = None

    @override
    def refresh(self, policy: Policy, version: int) -> dict[str, Any]:
        if self._pool is None:
            self._run, self._pool = secrets.token_hex(4), self._start(policy)
        given = (version, getattr(policy, "merges", 0))
        if given != self._given:
            self._weights = self._written(policy, version)
            self._pool.offer(self._weights)
            self._given = given
        assert self._weights is not None
        return {"servers": self._pool.urls, "weights": asdict(self._weights)}

    def _written(self, policy: Policy, version: int) -> Weights:
        place, label = self._place(), f"{self._run}-{version}"
        if self.adapters == "merged" or not _has_adapter(policy):
            return Weights(str(write_weights(policy, place, self.dtype, label)), label)
        below = f"{self._run}-below-{policy.merges}"
        if self._weights is None or self._weights.label != below:
            path = str(write_weights(policy, place, self.dtype, below, merge=False))
        else:
            path = self._weights.path
        return Weights(path, below, str(write_adapter(policy, place, label)), f"{ADAPTER}{label}")

    @override
    def join(self, told: dict[str, Any]) -> None:
        if self._pool is None:
            servers = [Server(url, self.timeout) for url in told["servers"]]
            self._pool = ServerPool(servers, [None] * len(servers), patience=self.patience)
        weights = Weights(**told["weights"])
        if weights != self._weights:
            self._pool.offer(weights)
            self._weights = weights

    @override
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        assert self._pool is not None
        writer, asked = RowWriter(request.limit_Q.shape[0]), orders(request)
        for index, answers in self._pool.answers([(order.tokens, order.sampling) for order in asked]):
            _write(policy, request, asked[index].rows, answers, writer)
        return writer.finish()

    @override
    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = self._given = self._weights = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _start(self, policy: Policy) -> ServerPool:
        if self.servers:
            servers = [Server(url, self.timeout) for url in self.servers]
            return ServerPool(servers, [None] * len(servers), patience=self.patience)
        model = self._place() / "model"
        policy.export(model)
        given = (
            {"dtype": self.dtype, "max_model_len": policy.context_length} | self._for_adapters(policy) | self.arguments
        )
        processes = []
        for port in [free_port() for _ in range(self.count)]:
            processes.append(ServerProcess(server_command(str(self.python), model, port, given), self._place(), port))
            processes[-1].revive()
        return ServerPool([Server(each.url, self.timeout) for each in processes], processes, patience=self.patience)

    def _for_adapters(self, policy: Policy) -> dict[str, Any]:
        if self.adapters == "merged" or not _has_adapter(policy):
            return {}
        rank = cast(Any, policy).lora.rank
        return {"enable_lora": True, "max_lora_rank": next((each for each in RANKS if each >= rank), rank)}

    def _place(self) -> Path:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            return self.folder
        if self._temporary is None:
            memory = Path("/dev/shm")
            place = memory if memory.is_dir() else None
            self._temporary = tempfile.TemporaryDirectory(
                prefix="grpo-lightning-", dir=place, ignore_cleanup_errors=True
            )
        return Path(self._temporary.name)


def _has_adapter(policy: Policy) -> bool:
    return getattr(policy, "lora", None) is not None


def _write(
    policy: Policy, request: GenerationRequest, rows: Sequence[int], answers: Sequence[Answer], writer: RowWriter
) -> None:
    for row, answer in zip(rows, answers, strict=True):
        limit = int(request.limit_Q[row])
        length, finish = cut_at_stop(policy, answer.tokens, limit, request.stop_ids, request.stop_strings)
        for token, log_prob in zip(answer.tokens[:length], answer.log_probs[:length], strict=True):
            writer.write(row, token, log_prob, None)
        writer.end(row, finish)
        if request.ended is not None:
            request.ended(writer.ended(row))
