"""Our own decode loop."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning import preemption, profiling
from grpo_lightning.engines.admission import Admission, Admitted
from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.draw import Draw, draw
from grpo_lightning.engines.flat_batch import FlatBatch
from grpo_lightning.engines.flat_probe import decodes_flat
from grpo_lightning.engines.lean_probe import flat_forward
from grpo_lightning.engines.plain_batch import PlainBatch
from grpo_lightning.engines.rollout_weights import WeightsType, narrowed, narrows, packed
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.engines.stopping import finish_of
from grpo_lightning.errors import NonFiniteError, require, require_range
from grpo_lightning.functional.seeding import addressed_uniform
from grpo_lightning.policies.base import Policy


class Batch(Protocol):
    """Rows in flight."""

    joins: bool
    """Rows may come in while others are written."""

    def advance(self, tokens: Sequence[int], admitted: Sequence[Admitted]) -> Tensor:
        """Write a token of each row and let rows come in; [rows, V] logits of the next one, new rows last."""

    def keep(self, alive: Sequence[bool]) -> list[int]:
        """Let go of the rows that have ended; returns the rows left in their new order, by their old places."""

    def settle(self, room: int) -> None:
        """Nobody comes in but with the next step; keys of ``room`` tokens may be kept."""

    def rest(self) -> None:
        """Leave the model as it was, until the next step."""


class DecodeLoop(Engine):
    """Decodes with the policy's own weights: a context once, no padding, finished rows out of the batch, addressed draws.

    Each distinct context of a request is run once, and all its rows read the same keys. As rows end, others come in. A
    step draws one uniform number a row, a function of (seed, stream, address, position), and inverts it through the
    cumulative distribution in order of ids, in float64. A model whose attention has something of its own is found by
    trying, told of once, and decoded with its own cache.

    Args:
        batch_rows: Rows that are decoded at once.
        cache_tokens: Tokens whose keys and values may be kept at once: a context counts once, a row with its limit.
        weights: Type of the weights that sample: the policy's ``own``, or ``bfloat16``, made from them for each request;
            ``auto`` for the latter where the run's precision is bf16-mixed. The log-probabilities are those of these weights.
    """

    name = "decode_loop"
    addressed = True
    deterministic = True

    def __init__(self, *, batch_rows: int = 512, cache_tokens: int = 1 << 16, weights: WeightsType = "auto") -> None:
        require_range("batch_rows", batch_rows, low=1)
        require_range("cache_tokens", cache_tokens, low=1)
        require(weights in ("auto", "own", "bfloat16"), "weights", weights, "is no type of weights",
                "set auto, own or bfloat16")  # fmt: skip
        self.batch_rows, self.cache_tokens = batch_rows, cache_tokens
        self.weights: WeightsType = weights

    @override
    @torch.no_grad()
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        writer = RowWriter(request.limit_Q.shape[0])
        if request.limit_Q.numel():
            model: Any = policy.causal_lm
            device: Any = policy.device
            longest, narrow = int(request.limit_Q.max()), narrows(model, self.weights)
            flat = decodes_flat(policy)
            with torch.autocast(device.type, enabled=False) if narrow else contextlib.nullcontext():
                batch: Batch
                if flat:
                    batch = FlatBatch(flat_forward(model, narrow=narrow), request.contexts, device, longest)
                else:
                    own = packed(narrowed(model), model) if narrow else model
                    batch = PlainBatch(own, request.contexts, device)
                self._generate(policy, batch, longest, request, writer)
        return writer.finish()

    def _generate(
        self, policy: Policy, batch: Batch, longest: int, request: GenerationRequest, writer: RowWriter
    ) -> None:
        admission = Admission(
            request.context_Q,
            request.contexts.lengths().tolist(),
            longest,
            batch_rows=self.batch_rows,
            cache_tokens=self.cache_tokens,
            joins=batch.joins,
        )
        try:
            with profiling.phase(profiling.DECODE):
                _decode(policy, request, batch, admission, writer)
        finally:
            batch.rest()


def _decode(policy: Policy, request: GenerationRequest, batch: Batch, admission: Admission, writer: RowWriter) -> None:
    limits: list[int] = request.limit_Q.tolist()
    rows: list[int] = []
    counted = _Counted(policy, request)
    while True:
        preemption.check()
        admitted = admission.admit()
        if not admission.waits:
            batch.settle(admission.cache_tokens)
        if not rows and not admitted:
            return
        counted.rows(rows, writer)
        with profiling.phase(profiling.PREFILL) if admitted else contextlib.nullcontext():
            counted.contexts(admitted, padded=not batch.joins)
            logits = batch.advance([writer.tokens[row][-1] for row in rows], admitted)
        rows += [row for each in admitted for row in each.rows]
        _write(request, rows, _draw(request, rows, logits, writer), writer)
        finishes = [
            finish_of(policy, writer.tokens[row], limits[row], request.stop_ids, request.stop_strings) for row in rows
        ]
        ended = [row for row, finish in zip(rows, finishes, strict=True) if finish is not None]
        for row, finish in zip(rows, finishes, strict=True):
            if finish is not None:
                writer.end(row, finish)
        if ended:
            order = batch.keep([finish is None for finish in finishes])
            rows = [rows[place] for place in order]
            admission.ended(ended)
        if request.ended is not None and ended:
            batch.rest()
            for row in ended:
                request.ended(writer.ended(row))


class _Counted:
    """Tells a profile, if one is made, what the passes of a request run."""

    def __init__(self, policy: Policy, request: GenerationRequest) -> None:
        self._policy, self._request = policy, request
        self._lengths_C, self._seen = request.contexts.lengths(), set[int]()

    def rows(self, rows: Sequence[int], writer: RowWriter) -> None:
        """One token of each row, after its context and what it wrote before."""
        if rows and profiling.active():
            model: Any = self._policy.causal_lm
            written_Q = torch.tensor([len(writer.tokens[row]) - 1 for row in rows])
            past_Q = self._lengths_C[self._request.context_Q[torch.tensor(rows)]] + written_Q
            profiling.count_body(model, torch.ones_like(past_Q), past_Q)
            profiling.count_head(model, len(rows))

    def contexts(self, admitted: Sequence[Admitted], *, padded: bool) -> None:
        """Contexts that come in: each once where it stays until its last row is there, and unpadded."""
        if not (admitted and profiling.active()):
            return
        model: Any = self._policy.causal_lm
        again = [each.context for each in admitted if each.context in self._seen]
        run = [each.context for each in admitted if padded or each.context not in self._seen]
        self._seen.update(each.context for each in admitted)
        if run:
            lengths_C = self._lengths_C[torch.tensor(run)]
            wide_C = torch.full_like(lengths_C, int(lengths_C.max())) if padded else lengths_C
            duplicated = int(self._lengths_C[torch.tensor(again)].sum()) if padded and again else 0
            padding = int((wide_C - lengths_C).sum())
            profiling.count_body(model, wide_C, padding=padding, duplicated=duplicated)
            profiling.count_head(model, len(run))


def _draw(request: GenerationRequest, rows: Sequence[int], logits: Tensor, writer: RowWriter) -> Draw:
    address_QA = request.address_QA[torch.tensor(rows)]
    position_Q = torch.tensor([len(writer.tokens[row]) for row in rows])
    uniform_Q = addressed_uniform(request.seed, request.stream, torch.cat([address_QA, position_Q[:, None]], dim=1))
    return draw(logits, request.sampler, uniform_Q)


def _write(request: GenerationRequest, rows: Sequence[int], step: Draw, writer: RowWriter) -> None:
    if not bool(torch.isfinite(step.log_prob_Q).all()):
        row = rows[int((~torch.isfinite(step.log_prob_Q)).nonzero()[0, 0])]
        raise NonFiniteError(f"the policy's logits are not finite at (rollout, group, attempt, member, turn) = "
                             f"{request.key(row)}: its weights are broken, or its precision is too narrow")  # fmt: skip
    tokens, log_probs = step.token_Q.tolist(), step.log_prob_Q.tolist()
    for index, row in enumerate(rows):
        writer.write(row, tokens[index], log_probs[index], None if step.support is None else step.support[index])
