"""Generation by transformers' own ``generate``, for comparison."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.decode_loop import pad_left
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.engines.stopping import cut_at_stop
from grpo_lightning.functional.seeding import address_hash
from grpo_lightning.policies.base import Policy


class HFGenerate(Engine):
    """Calls ``model.generate``: every row runs its own prompt, and draws depend on the batch.

    The log-probability of a token is taken from the scores that ``generate`` sampled from; where these leave ids out, the
    rest is the support. The global generator is seeded from the address of the first row and restored afterwards.
    """

    name = "hf_generate"
    addressed = False
    deterministic = True

    @override
    @torch.no_grad()
    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        ids, mask = pad_left(request.contexts.select(request.context_Q))
        seed = int(address_hash(request.seed, request.stream, request.address_QA[:1])[0] >> 1)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            output = self._run(policy, request, ids, mask)
        width = ids.shape[1]
        # [Q, T, V]: scores after temperature and filters; removed ids are at minus infinity.
        log_probs = torch.stack([torch.log_softmax(scores.double(), dim=-1) for scores in output.scores], dim=1).cpu()
        return _collect(policy, request, output.sequences[:, width:].cpu(), log_probs)

    def _run(self, policy: Policy, request: GenerationRequest, ids: Tensor, mask: Tensor) -> Any:
        from transformers import GenerationConfig

        model, device = policy.causal_lm, policy.device  # type: ignore[attr-defined]
        config = GenerationConfig(
            max_new_tokens=int(request.limit_Q.max()),
            eos_token_id=sorted(request.stop_ids),
            pad_token_id=min(request.stop_ids),
            return_dict_in_generate=True,
            output_scores=True,
            **request.sampler.generate_arguments(),
        )
        return model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=config,
            stop_strings=list(request.stop_strings) or None,
            tokenizer=policy.tokenizer if request.stop_strings else None,  # type: ignore[attr-defined]
        )


def _collect(policy: Policy, request: GenerationRequest, tokens_QT: Tensor, log_probs_QTV: Tensor) -> Completions:
    writer = RowWriter(tokens_QT.shape[0])
    for row in range(tokens_QT.shape[0]):
        tokens = tokens_QT[row].tolist()
        limit = int(request.limit_Q[row])
        length, finish = cut_at_stop(policy, tokens, limit, request.stop_ids, request.stop_strings)
        for position, token in enumerate(tokens[:length]):
            here_V = log_probs_QTV[row, position]
            inside_V = torch.isfinite(here_V)
            support = None if bool(inside_V.all()) else inside_V.nonzero().squeeze(1).to(torch.int32)
            writer.write(row, token, float(here_V[token]), support)
        writer.end(row, finish)
    return writer.finish()
