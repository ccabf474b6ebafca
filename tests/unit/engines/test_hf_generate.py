"""``generate`` of transformers beside the decode loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from transformers import GPT2Config

from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.hf_generate import HFGenerate
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.samplers.greedy import Greedy
from grpo_lightning.samplers.min_p import MinP
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_k import TopK
from grpo_lightning.samplers.top_p import TopP
from grpo_lightning.types import FinishReason
from helpers.generation import CONTEXTS, as_rollouts, equal, make_request, supports_of
from helpers.tiny_policy import EOS, load_policy, row_distributions, save_model, tiny_policy

SAMPLERS = [
    Temperature(), Temperature(temperature=0.7), TopK(k=5, temperature=1.3), TopP(p=0.8), MinP(min_p=0.2), Greedy()
]  # fmt: skip
STOPS = [EOS, *range(60, 70)]


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy(dtype="float32")


def check(policy: CausalLM, sampler: Sampler) -> None:
    """Log-probabilities equal a fresh forward, and supports are the sampler's."""
    request = make_request(sampler, members=3, stop_ids=STOPS)
    completions = HFGenerate().generate(policy, request)
    with torch.no_grad():
        again = policy(as_rollouts(request, completions))["log_prob"]
    assert float((again - completions.log_probs.values).abs().max()) < 1e-5
    supports, position = supports_of(completions), 0
    with torch.no_grad():
        for row, tokens in enumerate(completions.tokens.tolist()):
            alone = row_distributions(
                policy.causal_lm, CONTEXTS[int(request.context_Q[row])], tokens, sampler.temperature
            )
            keep = sampler.support(alone)
            for step in range(len(tokens)):
                assert supports[position] == ([] if keep is None else keep[step].nonzero().squeeze(1).tolist())
                position += 1


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: f"{sampler.name}-{sampler.temperature}")
def test_log_probs_and_supports(policy: CausalLM, sampler: Sampler) -> None:
    check(policy, sampler)


@pytest.mark.parametrize("sampler", [Temperature(), TopK(k=5), Greedy()], ids=lambda sampler: str(sampler.name))
def test_a_models_own_generation_config_has_no_say(tmp_path: Path, sampler: Sampler) -> None:
    own = {
        "do_sample": True, "repetition_penalty": 1.7, "top_k": 3, "min_p": 0.3, "temperature": 0.2,
        "no_repeat_ngram_size": 1, "eos_token_id": [EOS, 77], "suppress_tokens": [30, 31],
    }  # fmt: skip
    policy = load_policy(save_model(tmp_path, generation=own), dtype="float32")
    check(policy, sampler)
    assert policy.causal_lm.generation_config.repetition_penalty == 1.7


def test_equal_requests_give_equal_bits_and_leave_the_global_generator_alone(policy: CausalLM) -> None:
    request = make_request(Temperature())
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    first = HFGenerate().generate(policy, request)
    assert torch.rand(1) == expected
    assert equal(first, HFGenerate().generate(policy, request))
    assert not equal(first, HFGenerate().generate(policy, make_request(Temperature(), rollout=1)))


def test_greedy_is_that_of_the_decode_loop(policy: CausalLM) -> None:
    request = make_request(Greedy(), members=2, stop_ids=STOPS)
    assert equal(HFGenerate().generate(policy, request), DecodeLoop().generate(policy, request))


def test_rows_end_where_the_decode_loop_ends_them(policy: CausalLM) -> None:
    free = DecodeLoop().generate(policy, make_request(Greedy(), members=1, limit=9, stop_ids=[EOS])).tokens.tolist()
    string = policy.tokenizer.decode(free[1][3:5])
    request = make_request(Greedy(), members=1, limits=[9, 9, 2, 6], stop_ids=[EOS, free[0][2]], stop_strings=[string])
    found, wanted = HFGenerate().generate(policy, request), DecodeLoop().generate(policy, request)
    assert equal(found, wanted)
    assert FinishReason.STOP in found.finish_Q.tolist()
    assert FinishReason.LENGTH in found.finish_Q.tolist()
    assert len(set(found.tokens.lengths().tolist())) > 1


def test_rows_without_stop_ids(policy: CausalLM) -> None:
    completions = HFGenerate().generate(policy, make_request(Temperature(), limit=4, stop_ids=[]))
    assert completions.tokens.lengths().tolist() == [4] * 20


def test_rows_near_the_end_of_the_context_do_not_run_over_it(tmp_path: Path) -> None:
    """A model with absolute positions has none beyond its context."""
    config = GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=2, n_positions=16, eos_token_id=1, bos_token_id=None
    )
    policy = load_policy(save_model(tmp_path, config), dtype="float32")
    contexts = [[10, 11], list(range(10, 23))]
    request = make_request(Greedy(), contexts=contexts, members=1, limits=[9, 3], stop_ids=[])
    found = HFGenerate().generate(policy, request)
    assert found.tokens.lengths().tolist() == [9, 3]
    assert equal(found, DecodeLoop().generate(policy, request))


def test_frequencies_of_a_step(policy: CausalLM) -> None:
    sampler = TopK(k=8)
    request = make_request(sampler, contexts=[CONTEXTS[3]], members=3000, limit=1)
    tokens = HFGenerate().generate(policy, request).tokens.values
    with torch.no_grad():
        exact_V = row_distributions(policy.causal_lm, CONTEXTS[3], [0])
    best = exact_V[0].topk(8).indices
    expected = 3000 * exact_V[0, best].softmax(-1)
    observed = torch.bincount(tokens, minlength=99)[best]
    assert int(observed.sum()) == 3000
    assert chisquare(observed.tolist(), expected.tolist()).pvalue > 1e-3
