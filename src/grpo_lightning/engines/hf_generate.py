"""Generation by transformers' own ``generate``, for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.plain_batch import pad_left
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.engines.stopping import cut_at_stop
from grpo_lightning.functional.seeding import address_hash
from grpo_lightning.policies.base import Policy


class HFGenerate(Engine):
    """Calls ``model.generate``: every row runs its own prompt, and draws depend on the batch.

    The log-probability of a token is taken from the scores that ``generate`` sampled from; where these leave ids out, the
    rest is the support. What the model's own generation config says about sampling is left out: the sampler alone decides.
    Rows of one limit are a batch. The global generator is seeded from the address of its first row and restored afterwards.
    """

    name = "hf_generate"
    addressed = False
    deterministic = True

    @override
    @torch.no_grad()
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        writer = RowWriter(request.limit_Q.shape[0])
        # A row that may write less is not in the batch of one that may write more: it could run over its context.
        for limit in torch.unique(request.limit_Q).tolist():
            rows = (request.limit_Q == limit).nonzero().squeeze(1)
            ids, mask = pad_left(request.contexts.select(request.context_Q[rows]))
            seed = int(address_hash(request.seed, request.stream, request.address_QA[rows[:1]])[0] >> 1)
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                output = _run(policy, request, ids, mask, limit)
            _collect(policy, request, rows, output.sequences[:, ids.shape[1] :].cpu(), output.scores, writer)
        return writer.finish()


def _run(policy: Policy, request: GenerationRequest, ids: Tensor, mask: Tensor, limit: int) -> Any:
    from transformers import GenerationConfig

    model: Any = policy.causal_lm
    device: Any = policy.device
    config = GenerationConfig(
        max_new_tokens=limit,
        eos_token_id=sorted(request.stop_ids) or None,
        pad_token_id=min(request.stop_ids, default=0),
        return_dict_in_generate=True,
        output_scores=True,
        stop_strings=list(request.stop_strings) or None,
        **request.sampler.generate_arguments(),
    )
    with _own_defaults_aside(model):
        return model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=config,
            tokenizer=policy.tokenizer if request.stop_strings else None,
        )


@contextmanager
def _own_defaults_aside(model: Any) -> Iterator[None]:
    """Let ``generate`` fill nothing in from the model's generation config, such as a repetition penalty."""
    from transformers import GenerationConfig

    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def _collect(
    policy: Policy, request: GenerationRequest, rows: Tensor, tokens_QT: Tensor, scores: Any, writer: RowWriter
) -> None:
    """Write the tokens up to where each row had to stop; ``scores`` are [Q, V] a step, with removed ids at -inf."""
    ends, greedy = [], not request.sampler.generate_arguments()["do_sample"]
    for index, row in enumerate(rows.tolist()):
        limit, tokens = int(request.limit_Q[row]), tokens_QT[index].tolist()
        length, finish = cut_at_stop(policy, tokens, limit, request.stop_ids, request.stop_strings)
        ends.append(length)
        writer.end(row, finish)
    for step, scores_QV in enumerate(scores):
        if greedy:
            chosen_QV = torch.full_like(scores_QV, -torch.inf)
            scores_QV = chosen_QV.scatter_(1, tokens_QT[:, step, None].to(scores_QV.device), 0.0)
        log_probs_QV = torch.log_softmax(scores_QV.double(), dim=-1).cpu()
        for index, row in enumerate(rows.tolist()):
            if step < ends[index]:
                inside_V, token = torch.isfinite(log_probs_QV[index]), int(tokens_QT[index, step])
                support = None if bool(inside_V.all()) else inside_V.nonzero().squeeze(1).to(torch.int32)
                writer.write(row, token, float(log_probs_QV[index, token]), support)
