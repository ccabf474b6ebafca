"""The policy's forward, its reference and what it says about itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.samplers.greedy import Greedy
from grpo_lightning.samplers.top_p import TopP
from grpo_lightning.types import Ragged, Rollouts
from helpers.chat import CHAT_VOCABULARY, END, chat_tokenizer
from helpers.generation import as_rollouts, make_request
from helpers.hand_loss import HandRow, example_rows, to_collected
from helpers.tiny_policy import move, on_support, row_distributions, save_model, small_llama, tiny_policy


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    """A policy that has moved away from its reference."""
    made = tiny_policy()
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


def with_supports(rollouts: Rollouts) -> tuple[Rollouts, list[list[int]]]:
    """Every third step could choose from everything, the others from the chosen id and three more."""
    supports = []
    for step, token in enumerate(rollouts.actions.values.tolist()):
        supports.append([] if step % 3 == 0 else sorted({token, 3 + step % 7, 40, 98 - step % 5}))
    return replace(rollouts, support=Ragged.from_list(supports, torch.int32)), supports


def by_loops(policy: CausalLM, rows: list[HandRow], supports: list[list[int]]) -> dict[str, Tensor]:
    found: dict[str, list[Tensor]] = {"log_prob": [], "entropy": [], "sum_of_squares": [], "exact_kl": []}
    position = 0
    with torch.no_grad():
        for row in rows:
            both = [
                row_distributions(model, row.prompt, row.actions, row.temperature)
                for model in (policy.causal_lm, policy._reference[0])
            ]
            for step, token in enumerate(row.actions):
                support = supports[position]
                lp, ref = (on_support(each[step], support) for each in both)
                position += 1
                if row.written[step]:
                    inside = support or range(lp.shape[0])
                    found["log_prob"].append(lp[token])
                    found["entropy"].append(sum((-lp[v].exp() * lp[v] for v in inside), torch.zeros(())))
                    found["sum_of_squares"].append(sum((lp[v].exp() ** 2 for v in inside), torch.zeros(())))
                    found["exact_kl"].append(sum((lp[v].exp() * (lp[v] - ref[v]) for v in inside), torch.zeros(())))
    return {name: torch.stack(values) for name, values in found.items()}


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("layout", ["padded", "packed", "shared"])
@pytest.mark.parametrize("apart", [True, False])
def test_functionals(policy: CausalLM, rows: list[HandRow], restricted: bool, layout: str, apart: bool) -> None:
    rollouts = to_collected(rows).rollouts
    supports: list[list[int]] = [[] for _ in range(rollouts.actions.values.shape[0])]
    if restricted:
        rollouts, supports = with_supports(rollouts)
    kept = policy.layout, policy._head_is_apart, policy.head_logits
    policy.layout, policy._head_is_apart, policy.head_logits = layout, apart, 300
    try:
        names = ["entropy", "sum_of_squares", "exact_kl"]
        found = policy(rollouts, names)
        observed = policy(rollouts, observed=names)
    finally:
        policy.layout, policy._head_is_apart, policy.head_logits = kept
    for name, wanted in by_loops(policy, rows, supports).items():
        assert float((found[name] - wanted).abs().max()) < 1e-10, name
        assert torch.equal(observed[name], found[name]), name
        assert found[name].requires_grad
        assert observed[name].requires_grad == (name == "log_prob")


def test_steps_are_in_the_order_of_the_rows(policy: CausalLM, rows: list[HandRow]) -> None:
    rollouts = to_collected(rows).rollouts
    order = torch.tensor([4, 0, 7, 2])
    with torch.no_grad():
        whole, some = policy(rollouts)["log_prob"], policy(rollouts.select(order))["log_prob"]
    row_S = rollouts.row_S[rollouts.trainable_S]
    assert float((some - torch.cat([whole[row_S == row] for row in order])).abs().max()) < 1e-12


@pytest.mark.parametrize("layout", ["padded", "packed", "shared"])
def test_rows_without_steps(policy: CausalLM, rows: list[HandRow], layout: str) -> None:
    empty = HandRow(3, [5, 6], [], [], 1.0)
    shown = HandRow(3, [5, 6], [9, 8, 7], [False] * 3, 1.0, mu=[0.0] * 3)
    policy.layout, kept = layout, policy.layout
    try:
        mixed = [empty, rows[0], shown, rows[3], empty]
        found = policy(to_collected(mixed).rollouts, ["entropy"])
        nothing = policy(to_collected([empty, shown]).rollouts, ["entropy", "exact_kl"])
        wanted = policy(to_collected([rows[0], rows[3]]).rollouts)
    finally:
        policy.layout = kept
    assert float((found["log_prob"] - wanted["log_prob"]).abs().max()) < 1e-12
    assert {name: each.shape for name, each in nothing.items()} == {
        name: torch.Size([0]) for name in ("log_prob", "entropy", "exact_kl")
    }


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kl_to_itself_is_exactly_0(lora: bool, dtype: str) -> None:
    policy = tiny_policy(dtype=dtype, lora=LoRA(rank=2) if lora else None)
    move(policy, seed=8)
    policy.freeze_reference()
    rollouts, _ = with_supports(to_collected(example_rows(policy.causal_lm)).rollouts)
    current = policy(rollouts, ["exact_kl"])
    with torch.no_grad():
        reference = policy(rollouts, weights="reference")["log_prob"]
    assert torch.equal(current["log_prob"], reference)
    assert not current["exact_kl"].any()
    move(policy, seed=9)
    with torch.no_grad():
        assert not torch.equal(policy(rollouts)["log_prob"], reference)
        assert torch.equal(policy(rollouts, weights="reference")["log_prob"], reference)


def test_the_reference_is_no_part_of_the_module(policy: CausalLM) -> None:
    names = set(policy.state_dict())
    assert names == set(tiny_policy().state_dict())
    assert not any(parameter.requires_grad for parameter in policy._reference[0].parameters())
    assert sum(1 for _ in policy.modules()) == sum(1 for _ in tiny_policy().modules())


def test_a_reference_can_be_written_and_taken_over(policy: CausalLM, rows: list[HandRow]) -> None:
    state = policy.reference_state()
    assert state is not None
    other = tiny_policy(seed=6)
    other.load_reference({name: each.clone() for name, each in state.items()})
    rollouts = to_collected(rows).rollouts
    with torch.no_grad():
        wanted = policy(rollouts, weights="reference")["log_prob"]
        assert torch.equal(other(rollouts, weights="reference")["log_prob"], wanted)
        assert not torch.equal(other(rollouts)["log_prob"], wanted)


def test_there_is_no_reference_before_it_is_frozen(rows: list[HandRow]) -> None:
    policy = tiny_policy()
    assert policy.reference_state() is None
    with pytest.raises(RuntimeError, match="before freeze_reference"):
        policy(to_collected(rows).rollouts, weights="reference")


def test_freezing_again_moves_the_reference(policy: CausalLM, rows: list[HandRow]) -> None:
    other = tiny_policy()
    for seed in (1, 2):
        move(other, seed=seed)
        other.freeze_reference()
        with torch.no_grad():
            current, reference = (other(to_collected(rows).rollouts, weights=each)["log_prob"] for each in _BOTH)
        assert torch.equal(current, reference)


_BOTH: tuple[Any, ...] = ("current", "reference")


def test_loading_is_in_two_phases_and_happens_once() -> None:
    policy = CausalLM(model="embedded://tiny-llama")
    assert policy.model is None
    assert list(policy.parameters()) == []
    policy.prepare()
    tokenizer = policy.tokenizer
    assert policy.context_length == 256
    assert policy.model is None
    policy.load()
    model = policy.model
    policy.prepare()
    policy.load()
    assert policy.model is model
    assert policy.tokenizer is tokenizer
    assert policy.training
    assert model.training
    assert policy.layout == "shared"


def test_every_stop_id_of_tokenizer_and_configs(tmp_path: Path) -> None:
    config = small_llama(vocab_size=CHAT_VOCABULARY, eos_token_id=1)
    folder = save_model(tmp_path, config, tokenizer=chat_tokenizer(), generation={"eos_token_id": [7, 9]})
    policy = CausalLM(model=folder)
    policy.prepare()
    assert policy.stop_ids == {1, 7, 9, END}
    assert policy.stop_ids_of(["<|start|>", "x"]) == {99}


def test_context_length_of_other_names(tmp_path: Path) -> None:
    from helpers.families import family_config

    policy = CausalLM(model=save_model(tmp_path, family_config("gpt2")))
    policy.prepare()
    assert policy.context_length == 64


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"head_logits": 0}, "head_logits: 0"),
        ({"layout": "nested"}, "layout: 'nested'"),
        ({"dtype": "int8"}, "dtype: 'int8'"),
    ],
)
def test_settings_are_checked(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        CausalLM(model="embedded://tiny-llama", **arguments)


def test_sampled_supports_are_reused_when_scored(policy: CausalLM) -> None:
    """Without them, log-probabilities would be those of the whole distribution."""
    request = make_request(TopP(p=0.5), members=2)
    completions = DecodeLoop().generate(policy, request)
    rollouts = as_rollouts(request, completions)
    with torch.no_grad():
        again = policy(rollouts)["log_prob"]
        free = policy(replace(rollouts, support=None))["log_prob"]
    assert float((again - completions.log_probs.values).abs().max()) < 1e-6
    assert float((free - completions.log_probs.values).abs().max()) > 0.1
    greedy = make_request(Greedy(), members=1)
    with torch.no_grad():
        assert not policy(as_rollouts(greedy, DecodeLoop().generate(policy, greedy)))["log_prob"].any()
