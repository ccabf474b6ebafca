"""The decode loop against full forward passes, exact probabilities and itself in other batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.flat_probe import decodes_flat
from grpo_lightning.engines.plain_batch import pad_left
from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.samplers.greedy import Greedy
from grpo_lightning.samplers.min_p import MinP
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_k import TopK
from grpo_lightning.samplers.top_p import TopP
from grpo_lightning.types import FinishReason, Ragged
from helpers.generation import CONTEXTS, as_rollouts, equal, make_request, pick, supports_of
from helpers.tiny_policy import EOS, on_support, row_distributions, tiny_policy

SAMPLERS = [Temperature(), Temperature(temperature=0.7), TopK(k=5, temperature=1.3), TopP(p=0.8), MinP(min_p=0.2)]
STOPS = [EOS, *range(60, 70)]
"""So many stop ids that rows end at different steps."""


def name_of(sampler: Sampler) -> str:
    return f"{sampler.name}-{sampler.temperature}"


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy(dtype="float32")


@pytest.mark.parametrize("sampler", SAMPLERS, ids=name_of)
@pytest.mark.parametrize("members", [1, 5])
@pytest.mark.parametrize("batch_rows", [512, 3])
def test_reported_log_probs_are_those_of_a_full_forward(
    policy: CausalLM, sampler: Sampler, members: int, batch_rows: int
) -> None:
    request = make_request(sampler, members=members, stop_ids=STOPS)
    completions = DecodeLoop(batch_rows=batch_rows).generate(policy, request)
    lengths = completions.tokens.lengths()
    assert lengths.min() < lengths.max() <= 12
    with torch.no_grad():
        again = policy(as_rollouts(request, completions))["log_prob"]
    assert float((again - completions.log_probs.values).abs().max()) < 1e-5
    supports, position = supports_of(completions), 0
    with torch.no_grad():
        for row, tokens in enumerate(completions.tokens.tolist()):
            context = CONTEXTS[int(request.context_Q[row])]
            alone = row_distributions(policy.causal_lm, context, tokens, sampler.temperature)
            for step, token in enumerate(tokens):
                wanted = on_support(alone[step], supports[position])[token]
                assert abs(float(wanted) - float(completions.log_probs.values[position])) < 1e-5
                assert not supports[position] or token in supports[position]
                position += 1


def test_greedy_steps_have_log_prob_0_when_sampled_and_when_scored(policy: CausalLM) -> None:
    request = make_request(Greedy(), members=2, limit=6)
    completions = DecodeLoop().generate(policy, request)
    assert not completions.log_probs.values.any()
    with torch.no_grad():
        assert not policy(as_rollouts(request, completions))["log_prob"].any()
        for row, tokens in enumerate(completions.tokens.tolist()):
            alone = row_distributions(policy.causal_lm, CONTEXTS[int(request.context_Q[row])], tokens)
            assert alone.argmax(-1).tolist() == tokens
    assert supports_of(completions) == [[token] for token in completions.tokens.values.tolist()]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=name_of)
def test_supports_are_those_of_the_sampler(policy: CausalLM, sampler: Sampler) -> None:
    request = make_request(sampler, members=1, limit=4)
    completions = DecodeLoop().generate(policy, request)
    supports, position = supports_of(completions), 0
    with torch.no_grad():
        for row, tokens in enumerate(completions.tokens.tolist()):
            alone = row_distributions(
                policy.causal_lm, CONTEXTS[int(request.context_Q[row])], tokens, sampler.temperature
            )
            keep = sampler.support(alone)
            for step in range(len(tokens)):
                wanted = [] if keep is None else keep[step].nonzero().squeeze(1).tolist()
                assert supports[position] == wanted
                position += 1


@pytest.mark.parametrize("sampler", [Temperature(), TopP(p=0.9)], ids=name_of)
def test_draws_do_not_depend_on_the_company(policy: CausalLM, sampler: Sampler) -> None:
    request = make_request(sampler, members=5, stop_ids=STOPS)
    whole = DecodeLoop().generate(policy, request).tokens.tolist()
    for batch_rows in (1, 2, 7):
        assert DecodeLoop(batch_rows=batch_rows).generate(policy, request).tokens.tolist() == whole
    order = torch.randperm(20, generator=torch.Generator().manual_seed(3)).tolist()
    for rows in (order, [19], [4, 3, 11], list(range(19, -1, -1))):
        some = DecodeLoop(batch_rows=6).generate(policy, pick(request, rows)).tokens.tolist()
        assert some == [whole[row] for row in rows]


def test_equal_requests_give_equal_bits(policy: CausalLM) -> None:
    request = make_request(TopK(k=9))
    assert equal(DecodeLoop().generate(policy, request), DecodeLoop().generate(policy, request))


def test_addresses_seeds_and_streams_give_other_draws(policy: CausalLM) -> None:
    def tokens(**changed: Any) -> list[list[int]]:
        return DecodeLoop().generate(policy, make_request(Temperature(), stop_ids=[], **changed)).tokens.tolist()

    first = tokens()
    assert len({tuple(row) for row in first}) == len(first)
    for other in (tokens(seed=1), tokens(stream="held_out"), tokens(rollout=1)):
        assert all(one != two for one, two in zip(first, other, strict=True))


def test_global_generator_is_left_alone(policy: CausalLM) -> None:
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    DecodeLoop().generate(policy, make_request(Temperature(), limit=3))
    assert torch.rand(1) == expected


@pytest.mark.parametrize("sampler", SAMPLERS, ids=name_of)
def test_frequencies_of_a_step(policy: CausalLM, sampler: Sampler) -> None:
    """4000 members of one group, one step each, against exact probabilities."""
    request = make_request(sampler, contexts=[CONTEXTS[3]], members=4000, limit=1)
    completions = DecodeLoop(batch_rows=4000).generate(policy, request)
    tokens = completions.tokens.values
    assert tokens.shape == (4000,)
    with torch.no_grad():
        exact_V = row_distributions(policy.causal_lm, CONTEXTS[3], [0], sampler.temperature)
    keep = sampler.support(exact_V)
    if keep is not None:
        exact_V = exact_V.masked_fill(~keep, -torch.inf)
    expected_V = 4000 * exact_V[0].softmax(-1)
    observed_V = torch.bincount(tokens, minlength=expected_V.shape[0]).double()
    assert not observed_V[expected_V == 0].any()
    frequent = expected_V >= 5
    observed, expected = observed_V[frequent].tolist(), expected_V[frequent].tolist()
    rest = (expected_V[~frequent].sum().item(), observed_V[~frequent].sum().item())
    if rest[0] >= 5:
        expected.append(rest[0])
        observed.append(rest[1])
    if len(expected) > 1:
        scale = sum(observed) / sum(expected)
        assert chisquare(observed, [scale * each for each in expected]).pvalue > 1e-3


def test_frequencies_over_groups_and_positions(policy: CausalLM) -> None:
    """The mean of ``-log p - entropy`` over groups, members and positions is 0 but for chance."""
    request = make_request(Temperature(), contexts=CONTEXTS * 25, members=4, limit=6, stop_ids=[])
    completions = DecodeLoop().generate(policy, request)
    with torch.no_grad():
        rollouts = as_rollouts(request, completions)
        log_prob, entropy = (policy(rollouts, ["entropy"])[name] for name in ("log_prob", "entropy"))
    difference = (-log_prob - entropy).double()
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / len(difference) ** 0.5


def test_draws_of_positions_members_and_groups_are_independent(policy: CausalLM) -> None:
    """Middles of the intervals that drawn tokens have in the cumulative distribution, by plain forward passes."""
    request = make_request(Temperature(), members=40, limit=6, stop_ids=[])
    completions = DecodeLoop().generate(policy, request)
    middles = torch.zeros(4, 40, 6, dtype=torch.float64)
    with torch.no_grad():
        for row, tokens in enumerate(completions.tokens.tolist()):
            probabilities = row_distributions(policy.causal_lm, CONTEXTS[row // 40], tokens).exp()
            for step, token in enumerate(tokens):
                below = probabilities[step, :token].sum()
                middles[row // 40, row % 40, step] = below + probabilities[step, token] / 2
    pairs = {
        "positions": (middles[:, :, :-1], middles[:, :, 1:]),
        "members": (middles[:, :-1], middles[:, 1:]),
        "groups": (middles[:-1], middles[1:]),
    }
    for name, (first, second) in pairs.items():
        correlation = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1]
        assert abs(float(correlation)) < 4 / first.numel() ** 0.5, name
    assert abs(float(middles.mean()) - 0.5) < 4 * (1 / 12 / middles.numel()) ** 0.5


def test_a_row_ends_at_a_stop_id_and_keeps_it(policy: CausalLM) -> None:
    request = make_request(Temperature(), members=5, limit=30, stop_ids=STOPS)
    completions = DecodeLoop().generate(policy, request)
    finishes = set()
    for tokens, finish in zip(completions.tokens.tolist(), completions.finish_Q.tolist(), strict=True):
        assert not set(tokens[:-1]) & set(STOPS)
        assert (tokens[-1] in STOPS) == (finish == FinishReason.STOP)
        assert len(tokens) == 30 or finish == FinishReason.STOP
        finishes.add(tokens[-1])
    assert len(finishes & set(STOPS)) > 1


def test_a_stop_string_ends_a_row_though_it_spans_tokens(policy: CausalLM) -> None:
    free = DecodeLoop().generate(policy, make_request(Temperature(), members=3, limit=30, stop_ids=[])).tokens.tolist()
    decode = policy.tokenizer.decode
    strings = [decode(free[0][4:7]), decode(free[5][10:12]), "no such text"]
    stopped = DecodeLoop().generate(
        policy, make_request(Temperature(), members=3, limit=30, stop_ids=[], stop_strings=strings)
    )
    for whole, tokens, finish in zip(free, stopped.tokens.tolist(), stopped.finish_Q.tolist(), strict=True):
        ends = [end for end in range(1, 31) if any(string in decode(whole[:end]) for string in strings)]
        assert tokens == whole[: min(ends, default=30)]
        assert finish == (FinishReason.STOP if ends else FinishReason.LENGTH)
    assert stopped.tokens.lengths()[0] <= 7
    assert stopped.tokens.lengths()[5] <= 12


def test_each_row_has_its_own_limit(policy: CausalLM) -> None:
    limits = [1, 3, 2, 9, 1, 4, 1, 6]
    request = make_request(Temperature(), members=2, limits=limits, stop_ids=[])
    completions = DecodeLoop(batch_rows=3).generate(policy, request)
    assert completions.tokens.lengths().tolist() == limits
    assert set(completions.finish_Q.tolist()) == {int(FinishReason.LENGTH)}


def test_a_stop_id_at_the_limit_is_a_stop(policy: CausalLM) -> None:
    free = DecodeLoop().generate(policy, make_request(Temperature(), limit=4, stop_ids=[])).tokens.tolist()
    ends = [row[-1] for row in free if row[-1] not in row[:-1]]
    again = DecodeLoop().generate(policy, make_request(Temperature(), limit=4, stop_ids=[ends[0]]))
    finish = [again.finish_Q[i] for i, row in enumerate(again.tokens.tolist()) if len(row) == 4 and row[-1] == ends[0]]
    assert finish
    assert set(map(int, finish)) == {int(FinishReason.STOP)}


def test_contexts_run_once_and_finished_rows_leave(policy: CausalLM) -> None:
    shapes: list[tuple[int, ...]] = []

    def note(module: Any, arguments: Any, keywords: dict[str, Any]) -> None:
        shapes.append(tuple(keywords["input_ids"].shape))

    assert decodes_flat(policy)
    handle = policy.causal_lm.register_forward_pre_hook(note, with_kwargs=True)
    try:
        limits = [1, 2, 2, 5, 1, 1, 1, 3, 1, 1, 1, 1]
        completions = DecodeLoop().generate(policy, make_request(Temperature(), members=3, limits=limits, stop_ids=[]))
    finally:
        handle.remove()
    assert completions.tokens.lengths().tolist() == limits
    assert shapes == [(1, 3 + 11 + 1 + 5), (1, 4), (1, 2), (1, 1), (1, 1)]


def test_vocabulary_is_never_left(policy: CausalLM) -> None:
    tokens = DecodeLoop().generate(policy, make_request(Temperature(temperature=50.0))).tokens.values
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < 99


def test_pad_left() -> None:
    ids, mask = pad_left(Ragged.from_list([[5, 6], [7], [8, 9, 3]], torch.int64))
    assert ids.tolist() == [[0, 5, 6], [0, 0, 7], [8, 9, 3]]
    assert mask.tolist() == [[0, 1, 1], [0, 0, 1], [1, 1, 1]]


def test_batch_rows_is_checked() -> None:
    with pytest.raises(ConfigError, match="batch_rows: 0"):
        DecodeLoop(batch_rows=0)


def test_cache_tokens_is_checked() -> None:
    with pytest.raises(ConfigError, match="cache_tokens: 0"):
        DecodeLoop(cache_tokens=0)
