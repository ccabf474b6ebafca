"""Generation by servers of vLLM, in processes and environments of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning import preemption
from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.engines.stopping import cut_at_stop
from grpo_lightning.engines.vllm_pool import ServerPool
from grpo_lightning.engines.vllm_process import ServerProcess, free_port, server_command
from grpo_lightning.engines.vllm_server import Answer, Server
from grpo_lightning.engines.vllm_weights import write_weights
from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.functional.seeding import address_hash
from grpo_lightning.policies.base import Policy

PATIENCE = 0.2
"""Seconds after which a run that waits for completions looks whether it is asked to stop."""


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
        self.servers, self.python, self.count, self.dtype = list(servers or []), python, count, dtype
        self.arguments, self.timeout, self.patience = dict(arguments or {}), timeout, patience
        self.folder = Path(folder) if folder else None
        self._pool: ServerPool | None = None
        self._version: int | None = None
        self._path = Path()

    @override
    def refresh(self, policy: Policy, version: int) -> dict[str, Any]:
        pool = self._pool = self._pool or self._start(policy)
        if version != self._version:
            self._path = write_weights(policy, self._place(), self.dtype, version)
            pool.offer(self._path, str(version))
            self._version = version
        return {"servers": pool.urls, "path": str(self._path), "version": version}

    @override
    def join(self, told: dict[str, Any]) -> None:
        if self._pool is None:
            servers = [Server(url, self.timeout) for url in told["servers"]]
            self._pool = ServerPool(servers, [None] * len(servers), patience=self.patience)
        if told["version"] != self._version:
            self._pool.offer(Path(told["path"]), str(told["version"]))
            self._version = told["version"]

    @override
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        assert self._pool is not None
        writer = RowWriter(request.limit_Q.shape[0])
        executor = ThreadPoolExecutor(max_workers=max(1, min(256, request.limit_Q.shape[0])))
        try:
            asked = {executor.submit(self._pool.ask, order.tokens, order.sampling): order for order in _orders(request)}
            left: set[Future[list[Answer]]] = set(asked)
            while left:
                done, left = wait(left, timeout=PATIENCE, return_when=FIRST_COMPLETED)
                preemption.check()
                for future in done:
                    _write(policy, request, asked[future].rows, future.result(), writer)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
        return writer.finish()

    @override
    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool, self._version = None, None

    def _start(self, policy: Policy) -> ServerPool:
        if self.servers:
            servers = [Server(url, self.timeout) for url in self.servers]
            return ServerPool(servers, [None] * len(servers), patience=self.patience)
        model = self._place() / "model"
        policy.export(model)
        given = {"dtype": self.dtype, "max_model_len": policy.context_length} | self.arguments
        processes = []
        for port in [free_port() for _ in range(self.count)]:
            processes.append(ServerProcess(server_command(str(self.python), model, port, given), self._place(), port))
            processes[-1].revive()
        return ServerPool([Server(each.url, self.timeout) for each in processes], processes, patience=self.patience)

    def _place(self) -> Path:
        if self.folder is None:
            memory = Path("/dev/shm")
            self.folder = Path(tempfile.mkdtemp(prefix="grpo-lightning-", dir=memory if memory.is_dir() else None))
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder


@dataclass(frozen=True)
class _Order:
    """Rows of one context and one limit: one question."""

    rows: list[int]
    tokens: list[int]
    sampling: dict[str, Any]


def _orders(request: GenerationRequest) -> list[_Order]:
    together: dict[tuple[int, int], list[int]] = {}
    for row, (context, limit) in enumerate(zip(request.context_Q.tolist(), request.limit_Q.tolist(), strict=True)):
        together.setdefault((context, limit), []).append(row)
    contexts, shared = request.contexts.tolist(), sampling_parameters(request)
    seeds = (address_hash(request.seed, request.stream, request.address_QA) >> 2).tolist()
    return [
        _Order(rows, contexts[context], shared | {"n": len(rows), "max_tokens": limit, "seed": int(seeds[rows[0]])})
        for (context, limit), rows in together.items()
    ]


def sampling_parameters(request: GenerationRequest) -> dict[str, Any]:
    """The distribution and the stops of a request in vLLM's words.

    Raises:
        ConfigError: If the sampler leaves tokens out: which ones, vLLM does not tell, and log-probabilities of training would
            be those of another distribution.
    """
    given = request.sampler.generate_arguments()
    left_out = given.get("top_k") or given.get("min_p") or given.get("top_p", 1.0) != 1.0
    if given["do_sample"] and left_out:
        raise ConfigError("model.sampler", request.sampler.name, "leaves tokens out, and vLLM does not tell which",
                          "sample with temperature alone, or generate with decode_loop")  # fmt: skip
    return {
        "temperature": given["temperature"] if given["do_sample"] else 0.0,
        "logprobs": 0,
        "ignore_eos": True,  # stop ids are all named
        "stop_token_ids": sorted(request.stop_ids),
        "stop": list(request.stop_strings),
        "include_stop_str_in_output": True,
        "detokenize": bool(request.stop_strings),
        "skip_special_tokens": False,
    }


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
