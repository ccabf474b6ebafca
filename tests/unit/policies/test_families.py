"""Many model families through one policy: rows alone, together, packed and decoded have the same numbers."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_p import TopP
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, family_config
from helpers.generation import as_rollouts, make_request
from helpers.hand_loss import HandRow, example_rows, to_collected
from helpers.tiny_policy import gradients, load_policy, relative, row_distributions, save_model

ALL = [*FAMILIES, *BENT_HEADS, *APART_ONLY]
UNPADDED_IN_FLOAT64 = ("gemma2", "bloom")
"""Families whose own attention gives NaN for padding on the left in float64: they are decoded in float32 here."""

OWN_PROMPTS = {
    "gemma2": "asks for attention with softcap",
    "bloom": "attends in a way of its own",
    "lfm2": "a row shows in the rows behind it",
}
"""Families whose rows cannot follow a prompt that is run once, and what is said of them."""


@pytest.fixture(scope="module", params=ALL)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return request.param, save_model(tmp_path_factory.mktemp(request.param), family_config(request.param))


@pytest.fixture(scope="module")
def policy(family: tuple[str, str]) -> CausalLM:
    return load_policy(family[1])


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


@torch.no_grad()
def alone(policy: CausalLM, rows: list[HandRow]) -> tuple[Tensor, Tensor]:
    """[S] log-probabilities and entropies of written steps, a row at a time through the plain model."""
    log_probs, entropies = [], []
    for row in rows:
        lp = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
        for step, token in enumerate(row.actions):
            if row.written[step]:
                log_probs.append(lp[step, token])
                entropies.append(-(lp[step].exp() * lp[step]).sum())
    return torch.stack(log_probs), torch.stack(entropies)


def scored(policy: CausalLM, rows: list[HandRow]) -> dict[str, Tensor]:
    with torch.no_grad():
        return policy(to_collected(rows).rollouts, ["entropy"])


def largest(first: Tensor, second: Tensor) -> float:
    return float((first.double() - second.double()).abs().max())


def test_rows_share_prompts_or_are_said_not_to(
    family: tuple[str, str], rows: list[HandRow], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="grpo_lightning"):
        policy = load_policy(family[1])
    said = [record.getMessage() for record in caplog.records if "cannot share a prompt" in record.getMessage()]
    assert len(said) == (family[0] in OWN_PROMPTS)
    assert policy.layout == ("padded" if family[0] in OWN_PROMPTS else "shared")
    assert policy.shares_prompts == (family[0] not in OWN_PROMPTS)
    assert all(OWN_PROMPTS[family[0]] in text and family[1] in text for text in said)
    # Prompts of several rows are among the example, so something is shared.
    rollouts = to_collected(rows).rollouts
    assert len(torch.unique(rollouts.prompt_R)) < len(rollouts)


def test_rows_are_rows_alone(policy: CausalLM, rows: list[HandRow]) -> None:
    found = scored(policy, rows)
    log_prob, entropy = alone(policy, rows)
    assert largest(found["log_prob"], log_prob) < 1e-5
    assert largest(found["entropy"], entropy) < 1e-5
    # The example is not trivial: distributions are far from uniform, and differ.
    assert float(entropy.min()) < 4.4
    assert float(log_prob.max() - log_prob.min()) > 1


def test_packed_rows_are_rows_alone_or_are_padded_and_said_to_be(
    family: tuple[str, str], policy: CausalLM, rows: list[HandRow], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="grpo_lightning"):
        packed = load_policy(family[1], layout="packed")
    said = any("does not keep packed rows apart" in record.message for record in caplog.records)
    assert said == (packed.layout == "padded")
    assert said or family[0] not in APART_ONLY
    assert not said or family[0] not in FAMILIES
    assert largest(scored(packed, rows)["log_prob"], alone(policy, rows)[0]) < 1e-5


def test_dropout_in_the_config_changes_nothing(family: tuple[str, str], policy: CausalLM, rows: list[HandRow]) -> None:
    configured = family_config(family[0]).to_dict()
    assert family[0] == "lfm2" or any("drop" in name and value == 0.1 for name, value in configured.items())
    first, second = scored(policy, rows), scored(policy, rows)
    policy.eval()
    evaluated = scored(policy, rows)
    policy.train()
    for name in first:
        assert torch.equal(first[name], second[name])
        assert torch.equal(first[name], evaluated[name])


@pytest.mark.parametrize("sampler", [Temperature(temperature=0.8), TopP(p=0.8)], ids=["temperature", "top_p"])
def test_decoded_log_probs_are_those_of_a_forward(family: tuple[str, str], policy: CausalLM, sampler: Any) -> None:
    policies = [load_policy(family[1], dtype="float32")]
    if family[0] not in UNPADDED_IN_FLOAT64:
        policies.append(policy)
    for each in policies:
        request = make_request(sampler, members=3, stop_ids=[1, *range(60, 70)])
        completions = DecodeLoop(batch_rows=7).generate(each, request)
        with torch.no_grad():
            again = each(as_rollouts(request, completions))["log_prob"]
        assert largest(again, completions.log_probs.values) < 1e-5


def test_gradients_are_those_of_rows_alone(policy: CausalLM, rows: list[HandRow]) -> None:
    policy(to_collected(rows).rollouts)["log_prob"].sum().backward()
    found = gradients(policy.causal_lm)
    total: Any = 0.0
    for row in rows:
        lp = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
        total = total + sum(lp[step, token] for step, token in enumerate(row.actions) if row.written[step])
    total.backward()
    assert relative(found, gradients(policy.causal_lm)) < 1e-6


def test_heads_that_bend_logits_are_found(
    family: tuple[str, str], policy: CausalLM, caplog: pytest.LogCaptureFixture
) -> None:
    assert policy._head_is_apart == (family[0] not in BENT_HEADS)
    with caplog.at_level(logging.WARNING, logger="grpo_lightning"):
        load_policy(family[1])
    said = any("changes its logits after the head" in record.message for record in caplog.records)
    assert said == (family[0] in BENT_HEADS)
