"""Our own decode loop."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning import profiling
from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.draw import draw
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.engines.stopping import finish_of
from grpo_lightning.errors import NonFiniteError, require_range
from grpo_lightning.functional.seeding import addressed_uniform
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Ragged


class DecodeLoop(Engine):
    """Decodes with the policy's own weights: a context once, finished rows out of the batch, addressed draws.

    Each distinct context of a request is run once and its cache is repeated for the rows that share it. A step draws one
    uniform number a row, a function of (seed, stream, address, position), and inverts it through the cumulative
    distribution in order of ids, in float64.

    Args:
        batch_rows: Rows that are decoded at once.
    """

    name = "decode_loop"
    addressed = True
    deterministic = True

    def __init__(self, *, batch_rows: int = 512) -> None:
        require_range("batch_rows", batch_rows, low=1)
        self.batch_rows = batch_rows

    @override
    @torch.no_grad()
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        writer = RowWriter(request.limit_Q.shape[0])
        # Rows of one context stay together, so that it is run once.
        order = torch.argsort(request.context_Q, stable=True)
        for rows in torch.split(order, self.batch_rows):
            self._decode(policy, request, rows, writer)
        return writer.finish()

    def _decode(self, policy: Policy, request: GenerationRequest, rows: Tensor, writer: RowWriter) -> None:
        model: Any = policy.causal_lm
        contexts, context_Q = torch.unique_consecutive(request.context_Q[rows], return_inverse=True)
        with profiling.phase(profiling.PREFILL):
            state = _prefill(model, request.contexts.select(contexts), context_Q, policy.device)  # type: ignore[arg-type]
        with profiling.phase(profiling.DECODE):
            self._write(policy, request, rows, writer, state, context_Q)

    def _write(
        self,
        policy: Policy,
        request: GenerationRequest,
        rows: Tensor,
        writer: RowWriter,
        state: _DecodeState,
        context_Q: Tensor,
    ) -> None:
        model: Any = policy.causal_lm
        logits, position = state.logits[context_Q], 0
        while rows.numel():
            address = torch.cat([request.address_QA[rows], torch.full((len(rows), 1), position)], dim=1)
            uniform = addressed_uniform(request.seed, request.stream, address)
            step = draw(logits, request.sampler, uniform)
            _require_finite(request, rows, step.log_prob_Q)
            going = []
            for index, row in enumerate(rows.tolist()):
                support = None if step.support is None else step.support[index]
                writer.write(row, int(step.token_Q[index]), float(step.log_prob_Q[index]), support)
                limit = int(request.limit_Q[row])
                finish = finish_of(policy, writer.tokens[row], limit, request.stop_ids, request.stop_strings)
                if finish is None:
                    going.append(index)
                else:
                    writer.end(row, finish)
                    if request.ended is not None:
                        request.ended(writer.ended(row))
            alive = torch.tensor(going, dtype=torch.int64)
            rows, position = rows[alive], position + 1
            if rows.numel():
                logits = state.advance(model, step.token_Q[alive], alive)


def _require_finite(request: GenerationRequest, rows: Tensor, log_prob_Q: Tensor) -> None:
    bad = (~torch.isfinite(log_prob_Q)).nonzero()
    if bad.numel():
        row = int(rows[bad[0, 0]])
        raise NonFiniteError(f"the policy's logits are not finite at (rollout, group, attempt, member, turn) = "
                             f"{request.key(row)}: its weights are broken, or its precision is too narrow")  # fmt: skip


class _DecodeState:
    """The cache of the rows still decoded, with what positions and masks need."""

    def __init__(self, cache: Any, mask_QL: Tensor, position_Q: Tensor, logits: Tensor) -> None:
        self.cache, self.mask_QL, self.position_Q, self.logits = cache, mask_QL, position_Q, logits

    def advance(self, model: Any, token_Q: Tensor, alive: Tensor) -> Tensor:
        """Keep the rows ``alive``, feed their tokens, and return the logits of their next step."""
        device = self.mask_QL.device
        alive = alive.to(device)
        if alive.shape[0] != self.mask_QL.shape[0]:
            self.cache.reorder_cache(alive)
            self.mask_QL, self.position_Q = self.mask_QL[alive], self.position_Q[alive]
        profiling.count_body(model, torch.ones_like(self.position_Q), self.position_Q)
        profiling.count_head(model, alive.shape[0])
        self.mask_QL = torch.cat([self.mask_QL, self.mask_QL.new_ones(alive.shape[0], 1)], dim=1)
        output = model(
            input_ids=token_Q[:, None].to(device),
            attention_mask=self.mask_QL,
            position_ids=self.position_Q[:, None],
            use_cache=True,
            **{_cache_name(model): self.cache},
        )
        self.position_Q = self.position_Q + 1
        return output.logits[:, -1]  # type: ignore[no-any-return]


def _prefill(model: Any, contexts: Ragged, context_Q: Tensor, device: torch.device) -> _DecodeState:
    ids, mask = pad_left(contexts)
    ids, mask, context_Q = ids.to(device), mask.to(device), context_Q.to(device)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    profiling.count_body(model, torch.full((len(contexts),), ids.shape[1]), padding=int((mask == 0).sum()))
    profiling.count_head(model, len(contexts))
    output = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
    cache = getattr(output, _cache_name(model))
    cache.reorder_cache(context_Q)
    return _DecodeState(cache, mask[context_Q], positions[context_Q, -1] + 1, output.logits[:, -1])


def _cache_name(model: Any) -> str:
    """Name of the cache, as an argument and in the output: transformers 5 renamed it on the way."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def pad_left(contexts: Ragged) -> tuple[Tensor, Tensor]:
    """[C, L] ids and mask, int64: contexts that end together."""
    lengths = contexts.lengths()
    width = int(lengths.max())
    mask = torch.arange(width)[None, :] >= width - lengths[:, None]
    ids = torch.zeros(len(contexts), width, dtype=torch.int64)
    ids[mask] = contexts.values.to(torch.int64)
    return ids, mask.to(torch.int64)
