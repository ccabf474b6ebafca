"""Adapters: only they train, merging keeps the function and moves the reference."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA, merge_and_reset
from helpers.families import family_config
from helpers.hand_loss import example_rows, to_collected
from helpers.tiny_policy import load_policy, move, row_distributions, save_model, small_llama, tiny_policy


def adapted() -> CausalLM:
    """A tiny policy whose adapters have trained."""
    policy = tiny_policy(lora=LoRA(rank=3))
    move(policy, seed=5)
    return policy


def ids() -> Tensor:
    return torch.arange(3, 43).reshape(2, 20)


@torch.no_grad()
def logits(policy: CausalLM) -> Tensor:
    return policy.causal_lm(input_ids=ids()).logits


def adapter_parameters(policy: CausalLM) -> set[str]:
    return {name for name, _ in policy.named_parameters() if "lora_" in name}


def test_only_adapters_train() -> None:
    policy = load_policy("embedded://tiny-llama", lora=LoRA(rank=3))
    trained = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    assert trained == adapter_parameters(policy)
    assert len(trained) == 3 * 7 * 2
    rows = to_collected(example_rows(policy.causal_lm)).rollouts
    for _ in range(2):  # asking for the reference in between must not switch adapters off for good
        with torch.no_grad():
            policy(rows, weights="reference")
        policy(rows)["log_prob"].sum().backward()
        with_gradient = {name for name, parameter in policy.named_parameters() if parameter.grad is not None}
        assert with_gradient == trained
        assert {name for name, parameter in policy.named_parameters() if parameter.requires_grad} == trained
        policy.zero_grad()


def test_reference_is_the_adapter_switched_off() -> None:
    policy = adapted()
    rows = example_rows(policy.causal_lm)
    with policy.model.disable_adapter(), torch.no_grad():
        wanted = torch.cat(
            [
                torch.stack([lp[step, token] for step, token in enumerate(row.actions) if row.written[step]])
                for row in rows
                for lp in [row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)]
            ]
        )
    with torch.no_grad():
        found = policy(to_collected(rows).rollouts, weights="reference")["log_prob"]
        current = policy(to_collected(rows).rollouts)["log_prob"]
    assert float((found - wanted).abs().max()) < 1e-12
    assert float((current - wanted).abs().max()) > 1e-3
    assert policy.reference_state() is None


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 1e-6)])
def test_merging_keeps_the_function_and_moves_the_reference(dtype: str, bound: float) -> None:
    policy = load_policy("embedded://tiny-llama", dtype=dtype, lora=LoRA(rank=3))
    move(policy, seed=5)
    before = logits(policy)
    with policy.model.disable_adapter():
        base = logits(policy)
    assert float((before - base).norm() / base.norm()) > 1e-2
    merge_and_reset(policy.model)
    assert float((logits(policy) - before).norm() / before.norm()) < bound
    with policy.model.disable_adapter():
        switched_off = logits(policy)
    assert torch.equal(switched_off, logits(policy))


def test_adapters_learn_again_after_a_merge() -> None:
    policy = adapted()
    policy.freeze_reference()
    rows = to_collected(example_rows(policy.causal_lm)).rollouts
    policy(rows)["log_prob"].sum().backward()
    sizes = {name: float(p.grad.norm()) for name, p in policy.named_parameters() if p.grad is not None}
    assert set(sizes) == adapter_parameters(policy)
    assert all(size > 0 for name, size in sizes.items() if "lora_B" in name)


def test_merging_draws_nothing() -> None:
    policy = adapted()
    torch.manual_seed(3)
    state = torch.get_rng_state()
    policy.freeze_reference()
    assert torch.equal(torch.get_rng_state(), state)


def test_merging_into_transposed_layers(tmp_path: Path) -> None:
    """GPT-2 keeps its weights the other way round."""
    policy = load_policy(save_model(tmp_path, family_config("gpt2")), lora=LoRA(rank=2))
    move(policy, seed=1, scale=0.1)
    before = logits(policy)
    with policy.model.disable_adapter():
        assert float((logits(policy) - before).abs().max()) > 1e-2
    merge_and_reset(policy.model)
    assert float((logits(policy) - before).abs().max()) < 1e-9


def test_merging_an_adapted_embedding_and_head(tmp_path: Path) -> None:
    lora = LoRA(rank=2, targets=["embed_tokens", "lm_head", "q_proj"])
    policy = load_policy(save_model(tmp_path, small_llama()), lora=lora)
    move(policy, seed=1, scale=0.1)
    before = logits(policy)
    merge_and_reset(policy.model)
    assert float((logits(policy) - before).abs().max()) < 1e-9
    with policy.model.disable_adapter():
        assert float((logits(policy) - before).abs().max()) < 1e-9


def test_exact_kl_with_an_adapted_head_measures_to_the_head_without(tmp_path: Path) -> None:
    policy = load_policy(save_model(tmp_path, small_llama()), lora=LoRA(rank=2, targets=["lm_head"]), head_logits=200)
    move(policy, seed=1, scale=0.2)
    rows = example_rows(policy.causal_lm)
    wanted = []
    with torch.no_grad():
        for row in rows:
            lp = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
            with policy.model.disable_adapter():
                ref = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
            wanted += [(lp[s].exp() * (lp[s] - ref[s])).sum() for s in range(len(row.actions)) if row.written[s]]
    found = policy(to_collected(rows).rollouts, ["exact_kl"])["exact_kl"]
    assert float((found - torch.stack(wanted)).abs().max()) < 1e-10
    assert float(found.detach().min()) > 1e-4
    found.sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in policy.parameters() if p.requires_grad)


def test_a_head_that_shares_its_weights_cannot_be_adapted(tmp_path: Path) -> None:
    folder = save_model(tmp_path, small_llama(tie_word_embeddings=True))
    for target in ("lm_head", "embed_tokens"):
        with pytest.raises(ConfigError, match=rf"lora\.targets: .*{target}.* shares its weights"):
            load_policy(folder, lora=LoRA(targets=["q_proj", target]))


def test_targets_that_match_nothing_are_named() -> None:
    with pytest.raises(ConfigError, match=r"lora\.targets: \['no_such_proj'\] does not fit the model"):
        load_policy("embedded://tiny-llama", lora=LoRA(targets=["no_such_proj"]))


@pytest.mark.parametrize(
    ("arguments", "said"), [({"rank": 0}, "rank: 0"), ({"alpha": 0.0}, "alpha: 0.0"), ({"targets": []}, "targets:")]
)
def test_settings_are_checked(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LoRA(**arguments)  # type: ignore[arg-type]
