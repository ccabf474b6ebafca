"""Flat decoding of many model families against passes over each row alone, in float64."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from grpo_lightning.engines import decode_loop, flat_batch
from grpo_lightning.engines.base import Completions, GenerationRequest
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.flat_probe import decodes_flat
from grpo_lightning.functional.seeding import addressed_uniform
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.samplers.temperature import Temperature
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, family_config
from helpers.generation import make_request
from helpers.tiny_policy import load_policy, move, row_distributions, save_model

PLAIN = {
    "gemma2": "attention of its own",
    "bloom": "attends in a way of its own",
    "lfm2": "other logits|lets a row know",
}
"""Families that are decoded with their own cache, and what is said of them."""
CONTEXTS = [[10, 11, 12], [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50], [7], [20, 33, 20, 33], [9, 8, 7, 60]]
STOPS = [1, *range(60, 70)]
LIMITS = [12, 1, 5, 12, 12] * 5
"""Five rows of each context."""


@pytest.fixture(scope="module", params=[*FAMILIES, *BENT_HEADS, *APART_ONLY])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, CausalLM]:
    address = save_model(tmp_path_factory.mktemp(request.param), family_config(request.param))
    # What gemma2 and bloom pad on the left is NaN in float64.
    narrow = request.param in ("gemma2", "bloom")
    return request.param, load_policy(address, dtype="float32" if narrow else "float64")


@torch.no_grad()
def reference(policy: CausalLM, request: GenerationRequest) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens and log-probabilities by whole passes over one row, and plain loops."""
    tokens, log_probs = [], []
    for row, limit in enumerate(request.limit_Q.tolist()):
        context = request.contexts[int(request.context_Q[row])].tolist()
        written: list[int] = []
        found: list[float] = []
        while len(written) < limit and not (written and written[-1] in request.stop_ids):
            log_probs_V = row_distributions(policy.causal_lm, context, [*written, 0], request.sampler.temperature)[-1]
            address = torch.tensor([[*request.key(row), len(written)]])
            threshold = float(addressed_uniform(request.seed, request.stream, address))
            token, cumulative = 0, float(log_probs_V[0].exp())
            while cumulative <= threshold:
                token += 1
                cumulative += float(log_probs_V[token].exp())
            written.append(token)
            found.append(float(log_probs_V[token]))
        tokens.append(written)
        log_probs.append(found)
    return tokens, log_probs


def check(policy: CausalLM, request: GenerationRequest, completions: Completions, close: float) -> None:
    tokens, log_probs = reference(policy, request)
    assert completions.tokens.tolist() == tokens
    flat = torch.tensor([value for row in log_probs for value in row], dtype=torch.float64)
    assert float((completions.log_probs.values.double() - flat).abs().max()) < close
    assert len(set(map(len, tokens))) > 3


def wide_log_probs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """(row, log-probability) of every step in float64, before completions are narrowed."""
    seen: list[tuple[int, float]] = []
    write = decode_loop.RowWriter.write

    def note(self: Any, row: int, token: int, log_prob: float, support: Any) -> None:
        seen.append((row, log_prob))
        write(self, row, token, log_prob, support)

    monkeypatch.setattr(decode_loop.RowWriter, "write", note)
    return seen


@pytest.mark.parametrize("copied", [0, 60, 1024])
@pytest.mark.parametrize("settings", [{}, {"batch_rows": 4}, {"cache_tokens": 60}, {"cache_tokens": 1}], ids=str)
def test_every_family_is_decoded_as_each_row_alone(
    family: tuple[str, CausalLM],
    settings: dict[str, Any],
    copied: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name, policy = family
    monkeypatch.setattr(flat_batch, "_COPIED", copied)
    request = make_request(Temperature(temperature=0.9), contexts=CONTEXTS, limits=LIMITS, stop_ids=STOPS)
    with caplog.at_level(logging.WARNING):
        flat = decodes_flat(policy)
    assert flat == (name not in PLAIN)
    seen = wide_log_probs(monkeypatch)
    completions = DecodeLoop(**settings).generate(policy, request)
    narrow = policy.dtype == torch.float32
    check(policy, request, completions, 1e-4 if narrow else 1e-6)
    if not narrow:
        _, wanted = reference(policy, request)
        for row, log_probs in enumerate(wanted):
            assert [value for index, value in seen if index == row] == pytest.approx(log_probs, abs=1e-10)


def test_a_model_that_cannot_is_told_of_once(family: tuple[str, CausalLM], caplog: pytest.LogCaptureFixture) -> None:
    name, policy = family
    from grpo_lightning.engines import flat_probe

    flat_probe._found.pop(policy.causal_lm, None)
    with caplog.at_level(logging.WARNING, "grpo_lightning.engines"):
        for _ in range(2):
            decodes_flat(policy)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (name in PLAIN)
    for warning in warnings:
        assert policy.address.text in warning
        assert any(reason in warning for reason in PLAIN[name].split("|"))


@pytest.mark.parametrize("family_name", ["llama", "gpt2"])
def test_adapters(family_name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    address = save_model(tmp_path_factory.mktemp("adapted"), family_config(family_name))
    policy = load_policy(address, lora=LoRA(rank=2))
    move(policy.model, seed=5, scale=0.3)
    request = make_request(Temperature(), contexts=CONTEXTS, limits=LIMITS, stop_ids=STOPS)
    completions = DecodeLoop().generate(policy, request)
    assert decodes_flat(policy)
    check(policy, request, completions, 1e-6)
    with policy.model.disable_adapter():
        assert DecodeLoop().generate(policy, request).tokens.tolist() != completions.tokens.tolist()


@pytest.mark.parametrize("copied", [0, 1024])
@pytest.mark.parametrize("window", [2, 3, 7, 12, 13, 40])
def test_windows_inside_the_context_across_it_and_beyond(
    window: int, copied: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat_batch, "_COPIED", copied)
    config = family_config("mistral")
    config.sliding_window = window
    policy = load_policy(save_model(tmp_path_factory.mktemp("window"), config))
    request = make_request(Temperature(), contexts=CONTEXTS, limits=LIMITS, stop_ids=STOPS)
    assert decodes_flat(policy)
    check(policy, request, DecodeLoop(batch_rows=7).generate(policy, request), 1e-6)


@pytest.mark.parametrize(
    ("settings", "contexts", "limit", "copies"),
    [
        ({}, CONTEXTS, 12, 1),  # 25 rows of up to 11 tokens: 275
        ({}, [[5] * 41], 12, 1),  # 5 x 41 = 205
        ({}, [[5] * 60, [7]], 4, 1),  # 10 x 60 = 600
        ({"cache_tokens": 328}, [[5] * 41] * 2, 12, 0),  # 10 x (41 + 12) = 530 are more than may be kept
        ({"batch_rows": 5}, [[5] * 41] * 2, 12, 1),  # the first five are not the last ones
    ],
    ids=str,
)
def test_rows_get_their_contexts_for_themselves_where_that_is_little(
    settings: dict[str, Any],
    contexts: list[list[int]],
    limit: int,
    copies: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = load_policy(save_model(tmp_path_factory.mktemp("copied"), family_config("llama")))
    request = make_request(Temperature(), contexts=contexts, limits=[limit] * 5 * len(contexts), stop_ids=[])
    decodes_flat(policy)
    calls: list[list[int]] = []
    copy = flat_batch.with_contexts

    def counted(own: Any, blocks: Any, context_R: Any, kept_R: Any, longest: int) -> Any:
        calls.append(list(kept_R))
        return copy(own, blocks, context_R, kept_R, longest)

    monkeypatch.setattr(flat_batch, "with_contexts", counted)
    many = DecodeLoop(**settings).generate(policy, request)
    assert len(calls) == copies
    monkeypatch.setattr(flat_batch, "_COPIED", 0)
    shared = DecodeLoop(**settings).generate(policy, request)
    assert len(calls) == copies
    assert many.tokens.tolist() == shared.tokens.tolist()
    assert torch.allclose(many.log_probs.values, shared.log_probs.values, atol=1e-6, rtol=0)
