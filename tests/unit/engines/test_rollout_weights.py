"""Sampling with narrow weights: what they are, what is reported, and that the policy knows nothing of it."""

from __future__ import annotations

import contextlib
import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from grpo_lightning.engines import lean_probe, rollout_weights
from grpo_lightning.engines.base import Completions, GenerationRequest
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.rollout_weights import PackedLinear, WeightsType, narrowed, narrows, packed
from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.samplers.temperature import Temperature
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, family_config
from helpers.generation import as_rollouts, equal, make_request
from helpers.tiny_policy import gradients, load_policy, move, row_distributions, save_model, tiny_policy

MAKERS: dict[str, Callable[[], CausalLM]] = {
    "all weights": lambda: tiny_policy(dtype="float32"),
    "adapters": lambda: _adapted(),
}


def _adapted() -> CausalLM:
    policy = tiny_policy(dtype="float32", lora=LoRA(rank=4))
    move(policy.model, seed=3, scale=0.1)
    return policy


def bf16_autocast() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


@torch.no_grad()
def rounded_log_probs(policy: CausalLM, request: GenerationRequest, completions: Completions) -> torch.Tensor:
    """[S] by passes over each row alone of a float32 model whose weights are rounded to bfloat16."""
    model = copy.deepcopy(policy.causal_lm)
    for each in model.parameters():
        each.copy_(each.bfloat16().float())
    found = []
    for row, tokens in enumerate(completions.tokens.tolist()):
        alone = row_distributions(model, request.contexts[int(request.context_Q[row])].tolist(), tokens)
        found += [alone[step, token] for step, token in enumerate(tokens)]
    return torch.stack(found)


@pytest.mark.parametrize("kind", MAKERS)
def test_log_probs_are_those_of_rounded_weights_and_own_weights_stay(kind: str) -> None:
    policy = MAKERS[kind]()
    before = {name: each.detach().clone() for name, each in policy.named_parameters()}
    request = make_request(Temperature(), limit=10, stop_ids=[])
    with bf16_autocast():
        completions = DecodeLoop().generate(policy, request)
    again = DecodeLoop(weights="bfloat16").generate(policy, request)
    assert equal(completions, again)
    exact = rounded_log_probs(policy, request, completions)
    difference = (completions.log_probs.values - exact).abs()
    with bf16_autocast(), torch.no_grad():
        noise = (policy(as_rollouts(request, completions))["log_prob"] - exact).abs()
    assert 0 < float(difference.mean()) < 2 * float(noise.mean()) < 0.1
    assert float(difference.max()) < 3 * float(noise.max())
    for name, each in policy.named_parameters():
        assert torch.equal(each, before[name])
        assert each.dtype == torch.float32
        assert each.grad is None
    own = DecodeLoop(weights="own").generate(policy, request)
    assert not torch.equal(own.log_probs.values, completions.log_probs.values)
    with torch.no_grad():
        exact = policy(as_rollouts(request, own))["log_prob"]
    assert float((own.log_probs.values - exact).abs().max()) < 1e-5


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("weights", ["auto", "own", "bfloat16"])
def test_gradients_after_generating_are_those_without(kind: str, weights: WeightsType) -> None:
    policy = MAKERS[kind]()
    request = make_request(Temperature(), limit=6, stop_ids=[])
    rows = as_rollouts(request, DecodeLoop().generate(policy, request))
    with bf16_autocast():
        policy(rows)["log_prob"].sum().backward()
    wanted = gradients(policy)
    assert any(bool(each.any()) for each in wanted.values())
    with bf16_autocast():
        DecodeLoop(weights=weights).generate(policy, request)
        policy(rows)["log_prob"].sum().backward()
    found = gradients(policy)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("family", [*FAMILIES, *BENT_HEADS, *APART_ONLY])
def test_every_family(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = family_config(family)
    policy = load_policy(save_model(tmp_path_factory.mktemp(family), config, scale=0.1), dtype="float32")
    request = make_request(Temperature(), limit=6, stop_ids=[])
    completions = DecodeLoop(weights="bfloat16").generate(policy, request)
    difference = (completions.log_probs.values - rounded_log_probs(policy, request, completions)).abs()
    # The few tokens that experts of a mixture are chosen for by a hair may go to another one.
    assert float(difference.median()) < 0.02
    assert float(difference.max()) < 0.2 or family == "mixtral"
    assert float(difference.max()) > 0


def test_shared_weights_stay_shared_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_policy(dtype="float32")
    made: list[Any] = []

    def watched(model: Any) -> Any:
        result = narrowed(model)
        made.append(weakref.ref(result))
        return result

    monkeypatch.setattr(lean_probe, "narrowed", watched)
    DecodeLoop(weights="bfloat16").generate(policy, make_request(Temperature(), limit=2))
    gc.collect()
    assert made
    assert [each() for each in made] == [None] * len(made)
    plain: Any = narrowed(policy.causal_lm)
    assert plain.lm_head.weight is plain.model.embed_tokens.weight
    assert {each.dtype for each in plain.parameters()} == {torch.bfloat16}
    assert not any(isinstance(each, PackedLinear) for each in plain.modules())
    assert plain.model.rotary_emb.inv_freq is policy.causal_lm.model.rotary_emb.inv_freq


def test_packed_layers_have_the_same_numbers() -> None:
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this CPU has no units for bfloat16")
    linear = torch.nn.Linear(40, 24, dtype=torch.bfloat16)
    laid_out = PackedLinear(linear)
    for rows in (1, 16, 300):
        hidden = torch.randn(1, rows, 40, generator=torch.Generator().manual_seed(rows)).bfloat16()
        exact = hidden.double() @ linear.weight.double().T + linear.bias.double()
        with torch.no_grad():
            assert float((laid_out(hidden).double() - exact).abs().max()) <= 2.0**-7 * float(exact.abs().max())
    assert laid_out.weight.is_meta
    original = tiny_policy(dtype="float32").causal_lm
    model: Any = packed(narrowed(original), original)
    assert isinstance(model.lm_head, PackedLinear)


def test_layers_that_cannot_be_packed_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_weights, "packs", lambda: False)
    original = tiny_policy(dtype="float32").causal_lm
    model = packed(narrowed(original), original)
    assert not any(isinstance(each, PackedLinear) for each in model.modules())


def test_when_weights_are_made_narrow() -> None:
    wide, narrow = tiny_policy(dtype="float32").causal_lm, tiny_policy(dtype="bfloat16").causal_lm
    double = tiny_policy().causal_lm
    contexts = {"plain": contextlib.nullcontext, "bf16": bf16_autocast}
    expected = {
        ("plain", "auto"): False, ("plain", "own"): False, ("plain", "bfloat16"): True,
        ("bf16", "auto"): True, ("bf16", "own"): False, ("bf16", "bfloat16"): True,
    }  # fmt: skip
    for (precision, weights), wanted in expected.items():
        with contexts[precision]():
            assert narrows(wide, weights) == wanted  # type: ignore[arg-type]
            assert not narrows(narrow, weights)  # type: ignore[arg-type]
            assert not narrows(double, weights)  # type: ignore[arg-type]
    with torch.autocast("cpu", dtype=torch.float16):
        assert not narrows(wide, "auto")


def test_weights_is_checked() -> None:
    with pytest.raises(ConfigError, match="weights: 'half'"):
        DecodeLoop(weights="half")  # type: ignore[arg-type]
