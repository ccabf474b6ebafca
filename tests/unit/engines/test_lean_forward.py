"""The lean pass of a decoder against the model's own: which models it takes, and that it gives the same numbers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig

from grpo_lightning.engines import lean_probe
from grpo_lightning.engines.base import GenerationRequest
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.flat_forward import ModelForward
from grpo_lightning.engines.lean_forward import LeanForward
from grpo_lightning.engines.lean_linear import Called, Fused, Packed, Plain
from grpo_lightning.engines.lean_probe import flat_forward
from grpo_lightning.engines.rollout_weights import packs
from grpo_lightning.functional import linear
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.samplers.temperature import Temperature
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, SIZE, family_config
from helpers.generation import as_rollouts, make_request
from helpers.tiny_policy import load_policy, move, row_distributions, save_model

LEAN = {"llama", "qwen2", "qwen3", "mistral"}
CLOSE = {"float64": 1e-6, "float32": 1e-5}
"""Norms of some families round to float32 whatever the model's type is."""


def make(folder: Any, family: str, dtype: str, **changed: Any) -> CausalLM:
    config = family_config(family)
    if changed:
        config = AutoConfig.for_model(family, **{**SIZE, **FAMILIES[family], **changed})
    return load_policy(save_model(folder, config), dtype=dtype)


def check_rows_alone(policy: CausalLM, request: GenerationRequest, close: float) -> None:
    """The engine's log-probabilities are those of each row run by itself."""
    completions = DecodeLoop().generate(policy, request)
    for row, tokens in enumerate(completions.tokens.tolist()):
        context = request.contexts[int(request.context_Q[row])].tolist()
        with torch.no_grad():
            alone = row_distributions(policy.causal_lm, context, tokens, request.sampler.temperature)
        wanted = alone[torch.arange(len(tokens)), torch.tensor(tokens)]
        assert torch.allclose(completions.log_probs[row].double(), wanted, atol=close, rtol=0)


def by_onednn(layer: nn.Linear) -> Fused:
    return Fused(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())


@pytest.fixture(params=sorted(LEAN))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("family", [*FAMILIES, *BENT_HEADS, *APART_ONLY])
def test_who_is_decoded_by_it(family: str, tmp_path: Any) -> None:
    model = make(tmp_path, family, "float32").causal_lm
    assert isinstance(flat_forward(model, narrow=False), LeanForward) == (family in LEAN)
    assert isinstance(flat_forward(model, narrow=True), LeanForward) == (family in LEAN)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(
    "changed",
    [{}, {"attention_bias": True, "mlp_bias": True}, {"num_key_value_heads": 4}, {"num_key_value_heads": 1},
     {"head_dim": 12}, {"tie_word_embeddings": False}, {"rms_norm_eps": 0.1},
     {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}}],
    ids=str,
)  # fmt: skip
def test_log_probs_are_those_of_rows_alone(dtype: str, changed: dict[str, Any], tmp_path: Any) -> None:
    policy = make(tmp_path, "llama", dtype, **changed)
    assert isinstance(flat_forward(policy.causal_lm, narrow=False), LeanForward)
    check_rows_alone(policy, make_request(Temperature(temperature=0.8), limit=10, stop_ids=[]), CLOSE[dtype] * 10)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("targets", ["all-linear", ["v_proj"], ["o_proj", "gate_proj"]], ids=str)
def test_adapted_layers_are_called(narrow: bool, targets: Any, tmp_path: Any) -> None:
    address = save_model(tmp_path, family_config("llama"), scale=0.1)
    policy = load_policy(address, dtype="float32", lora=LoRA(rank=3, targets=targets))
    move(policy.model, seed=5, scale=0.15)
    assert isinstance(flat_forward(policy.causal_lm, narrow=narrow), LeanForward)
    request = make_request(Temperature(), limit=10, stop_ids=[])
    weights: Any = "bfloat16" if narrow else "own"
    completions = DecodeLoop(weights=weights).generate(policy, request)
    with torch.no_grad():
        scored = policy(as_rollouts(request, completions))["log_prob"]
        with policy.model.disable_adapter():
            bare = policy(as_rollouts(request, completions))["log_prob"]
    far = (completions.log_probs.values - bare).abs().mean()
    near = (completions.log_probs.values - scored).abs()
    assert float(near.mean()) < 0.2 * float(far)
    if narrow:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            noise = (policy(as_rollouts(request, completions))["log_prob"] - scored).abs()
        assert float(near.mean()) < 2 * float(noise.mean())
    else:
        assert float(near.max()) < 1e-5


def test_what_others_have_changed_is_not_gone_around(family: str, tmp_path: Any) -> None:
    model = make(tmp_path, family, "float32").causal_lm
    layer = model.base_model.layers[0]
    for part in (model, model.base_model, layer, layer.mlp, layer.self_attn, layer.mlp.act_fn):
        hook = part.register_forward_hook(lambda *_: None)
        assert isinstance(flat_forward(model, narrow=False), ModelForward)
        hook.remove()
    assert isinstance(flat_forward(model, narrow=False), LeanForward)
    layer.extra = nn.Identity()
    assert isinstance(flat_forward(model, narrow=False), ModelForward)
    del layer.extra
    layer.mlp.scale = nn.Parameter(torch.ones(1))
    assert isinstance(flat_forward(model, narrow=False), ModelForward)


@pytest.mark.parametrize("part", ["self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "input_layernorm"])
def test_a_hook_of_a_part_is_heard(part: str, tmp_path: Any) -> None:
    policy = make(tmp_path, "llama", "float32")
    module = policy.causal_lm.base_model.layers[1].get_submodule(part)
    module.register_forward_hook(lambda _, __, output: output * 0.5)
    assert isinstance(flat_forward(policy.causal_lm, narrow=False), LeanForward)
    request = make_request(Temperature(), limit=4, stop_ids=[])
    completions = DecodeLoop().generate(policy, request)
    with torch.no_grad():
        scored = policy(as_rollouts(request, completions))["log_prob"]
    assert torch.allclose(completions.log_probs.values, scored, atol=1e-5, rtol=0)


def test_subclasses_and_other_activations_are_not_taken(tmp_path: Any) -> None:
    model = make(tmp_path, "llama", "float32").causal_lm
    model.__class__ = type("LlamaForCausalLM", (type(model),), {"__module__": "mine"})
    assert isinstance(flat_forward(model, narrow=False), ModelForward)
    gelu = make(tmp_path / "gelu", "llama", "float32", hidden_act="gelu").causal_lm
    assert isinstance(flat_forward(gelu, narrow=False), ModelForward)


def test_autocast_and_mixed_types_are_left_to_the_model(tmp_path: Any) -> None:
    model = make(tmp_path, "llama", "float32").causal_lm
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert isinstance(flat_forward(model, narrow=False), ModelForward)
    model.lm_head.bfloat16()
    assert isinstance(flat_forward(model, narrow=False), ModelForward)


@pytest.mark.parametrize("what", ["scale far out", "logits", "raises"])
def test_a_pass_with_other_logits_is_refused(what: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later version of a family might do: the comparison sees it."""
    model = make(tmp_path, "llama", "float32").causal_lm
    kind = type(model.base_model.layers[0].self_attn)
    forward, outer = kind.forward, type(model).forward

    def far_out(self: Any, hidden_states: torch.Tensor, **more: Any) -> Any:
        factor = 1 + 0.5 * (more["position_ids"] >= 50).to(hidden_states.dtype)
        return forward(self, hidden_states * factor[..., None], **more)

    def other_logits(self: Any, *arguments: Any, **more: Any) -> Any:
        output = outer(self, *arguments, **more)
        output.logits = output.logits * 1.2
        return output

    if what == "scale far out":
        monkeypatch.setattr(kind, "forward", far_out)
    elif what == "logits":
        monkeypatch.setattr(type(model), "forward", other_logits)
    else:
        monkeypatch.setattr(LeanForward, "__call__", lambda *_: torch.zeros(2, 3) @ torch.zeros(2, 3))
    assert isinstance(flat_forward(model, narrow=False), ModelForward)
    assert isinstance(flat_forward(model, narrow=True), ModelForward)
    assert lean_probe._found[model] == {torch.float32: None, torch.bfloat16: None}


@pytest.mark.parametrize("bias", [False, True])
def test_linear_layers_and_what_follows_them(bias: bool) -> None:
    torch.manual_seed(0)
    kinds: list[Any] = [(Plain, torch.float64, 1e-12), (Called, torch.float64, 1e-12), (Plain, torch.bfloat16, 0.02)]
    if packs():
        kinds.append((Packed, torch.bfloat16, 0.01))
    if torch.backends.mkldnn.is_available():
        kinds.append((by_onednn, torch.float32, 1e-6))
    for kind, dtype, close in kinds:
        layer = nn.Linear(40, 24, bias=bias, dtype=dtype)
        weight, offset = layer.weight.double(), layer.bias.double() if bias else torch.zeros(24).double()
        for rows in (1, 5, 70):
            hidden, other = torch.randn(rows, 40).to(dtype), torch.randn(rows, 24).to(dtype)
            kept = hidden.clone(), other.clone()
            product = torch.tensor(
                [[sum(w * h for w, h in zip(out, row, strict=True)) for out in weight.tolist()]
                 for row in hidden.double().tolist()], dtype=torch.float64,
            ) + offset  # fmt: skip
            wide = other.double()
            with torch.no_grad():
                lean = kind(layer)
                found = [lean(hidden), lean.silu(hidden), lean.times(hidden, other), lean.plus(hidden, other)]
            wanted = [product, product / (1 + (-product).exp()), product * wide, product + wide]
            for one, exact in zip(found, wanted, strict=True):
                assert one.dtype == dtype
                assert float((one.double() - exact).abs().max()) <= close * float(exact.abs().max())
            assert torch.equal(hidden, kept[0])
            assert torch.equal(other, kept[1])


def test_decoding_by_onednn(family: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(linear, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(linear, "LEAST_PRODUCT", 1)
    policy = make(tmp_path, family, "float32")
    forward = flat_forward(policy.causal_lm, narrow=False)
    assert isinstance(forward, LeanForward)
    assert type(forward._head) is Fused
    check_rows_alone(policy, make_request(Temperature(), limit=6, stop_ids=[]), CLOSE["float32"] * 10)


def test_packed_side_by_side() -> None:
    if not packs():
        pytest.skip("this CPU has no units for bfloat16")
    parts = [nn.Linear(16, out, dtype=torch.bfloat16) for out in (8, 4, 4)]
    hidden = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.no_grad():
        found = Packed(*parts)(hidden).double()
        wanted = torch.cat([hidden.double() @ each.weight.double().T + each.bias.double() for each in parts], dim=1)
    assert float((found - wanted).abs().max()) <= 2.0**-7 * float(wanted.abs().max())


def test_own_bfloat16_weights_are_laid_out_and_stay(tmp_path: Any) -> None:
    policy = make(tmp_path, "qwen2", "bfloat16")
    before = {name: each.detach().clone() for name, each in policy.named_parameters()}
    forward = flat_forward(policy.causal_lm, narrow=False)
    assert isinstance(forward, LeanForward)
    assert isinstance(forward._head, Packed if packs() else Plain)
    request = make_request(Temperature(), limit=8, stop_ids=[])
    completions = DecodeLoop().generate(policy, request)
    assert all(torch.equal(each, before[name]) for name, each in policy.named_parameters())
    with torch.no_grad():
        scored = policy(as_rollouts(request, completions))["log_prob"]
    wide = copy.deepcopy(policy).double()
    wide.dtype = torch.float64
    with torch.no_grad():
        exact = wide(as_rollouts(request, completions))["log_prob"]
    noise = (scored.double() - exact).abs().mean()
    assert float((completions.log_probs.values.double() - exact).abs().mean()) < 2 * float(noise)
