from __future__ import annotations

from typing import Any

import pytest
from torch.optim import AdamW

from grpo_lightning.errors import ConfigError
from helpers.configured_classes import Data, Model, polite, resolver

POLITE = f"{polite.__module__}.polite"
EXACT = "grpo_lightning.rewards.exact_match.ExactMatch"
CLIPPED = "grpo_lightning.losses.clipped.ClippedPolicyLoss"
FILE = "grpo_lightning.prompts.file.FilePrompts"


def model(**values: Any) -> dict[str, Any]:
    return resolver().parameters(values, Model, "model")


def data(**values: Any) -> dict[str, Any]:
    return resolver().parameters(values, Data, "data")


def full(class_path: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": class_path, "init_args": arguments}


@pytest.mark.parametrize(
    "written",
    [
        "clipped",
        "ClippedPolicyLoss",
        CLIPPED,
        {"name": "clipped"},
        {"class_path": "clipped"},
        {"class_path": CLIPPED},
        {"class_path": CLIPPED, "init_args": None},
        {},
    ],
)
def test_every_way_to_name_a_component(written: Any) -> None:
    assert model(loss=written)["loss"] == full(CLIPPED)


@pytest.mark.parametrize(
    "written",
    [
        {"name": "clipped", "epsilon_low": 0.1, "epsilon_high": 0.3},
        {"epsilon_low": 0.1, "epsilon_high": 0.3},
        {"class_path": CLIPPED, "init_args": {"epsilon_low": 0.1}, "epsilon_high": 0.3},
        {"class_path": CLIPPED, "init_args": {"epsilon_low": 9, "epsilon_high": 0.3}, "epsilon_low": 0.1},
    ],
)
def test_options_stand_beside_the_name(written: Any) -> None:
    assert model(loss=written)["loss"] == full(CLIPPED, epsilon_low=0.1, epsilon_high=0.3)


def test_defaults_are_written_out() -> None:
    found = model()
    assert found["loss"] == full(CLIPPED)
    assert found["advantage"] == full("grpo_lightning.advantages.group_norm.GroupNorm")
    assert set(found) == {"loss", "advantage"}, "what has no component keeps its default to itself"


def test_lists_of_components() -> None:
    clip = "grpo_lightning.transforms.clip.ClipAdvantage"
    assert model(transforms=[{"name": "clip", "limit": 1.0}])["transforms"] == [full(clip, limit=1.0)]
    assert model(transforms=None)["transforms"] is None


@pytest.mark.parametrize(
    ("written", "entry"),
    [
        ("exact_match", {"reward": full(EXACT)}),
        ({"reward": "exact_match", "weight": 2.0}, {"reward": full(EXACT), "weight": 2.0}),
        ({"name": "exact_match", "weight": 2.0}, {"reward": full(EXACT), "weight": 2.0}),
        ({"reward": "exact_match", "name": "right"}, {"reward": full(EXACT), "name": "right"}),
        ({"reward": "exact_match", "column": "gold"}, {"reward": full(EXACT, column="gold")}),
        ({"name": "exact_match", "column": "gold", "gate": True}, {"reward": full(EXACT, column="gold"), "gate": True}),
        ({"reward": {"name": "exact_match", "column": "gold"}}, {"reward": full(EXACT, column="gold")}),
        ({"class_path": EXACT, "init_args": {"column": "gold"}}, {"reward": full(EXACT, column="gold")}),
        (
            {"reward": full(EXACT, column="gold"), "column": "other", "name": None},
            {"reward": full(EXACT, column="other"), "name": None},
        ),
        (POLITE, {"reward": full("grpo_lightning.rewards.function.FunctionReward", function=POLITE)}),
        (
            {"reward": POLITE, "weight": 0.5},
            {"reward": full("grpo_lightning.rewards.function.FunctionReward", function=POLITE), "weight": 0.5},
        ),
    ],
)
def test_entries_are_split_into_component_and_fields(written: Any, entry: dict[str, Any]) -> None:
    assert model(rewards=[written])["rewards"] == [entry]


def test_kl_term() -> None:
    k2 = full("grpo_lightning.kl.k2.K2")
    assert model(kl="k2")["kl"] == {"estimator": k2}
    assert model(kl={"name": "k2", "weight": 0.1, "where": "loss"})["kl"] == {
        "estimator": k2, "weight": 0.1, "where": "loss",
    }  # fmt: skip


def test_groups_and_what_is_inside_them() -> None:
    found = model(generation={"max_new_tokens": 4}, warmup={"updates": 3})
    assert found["generation"] == {"max_new_tokens": 4}
    assert found["warmup"] == {"updates": 3, "loss": full("grpo_lightning.auxiliary.supervised.Supervised")}


def test_groups_inside_components() -> None:
    policy = model(policy={"name": "causal_lm", "model": "a/b", "lora": {"rank": 4}})["policy"]
    assert policy == full("grpo_lightning.policies.causal_lm.CausalLM", model="a/b", lora={"rank": 4})


def test_one_source() -> None:
    columns = {"prompt": "question"}
    assert data(train={"path": "a.jsonl", "columns": columns})["train"] == full(FILE, path="a.jsonl", columns=columns)
    assert data(train={"dataset": "a/b"})["train"] == full("grpo_lightning.prompts.hub.HubPrompts", dataset="a/b")
    assert data(train="arithmetic")["train"] == full("grpo_lightning.prompts.arithmetic.Arithmetic")
    assert data(train=None)["train"] is None


def test_several_sources_by_name() -> None:
    found = data(train={"sums": {"path": "a.jsonl"}, "made": "arithmetic"})["train"]
    assert found == {"sums": full(FILE, path="a.jsonl"), "made": full("grpo_lightning.prompts.arithmetic.Arithmetic")}


def test_evaluation_sets() -> None:
    greedy = full("grpo_lightning.samplers.greedy.Greedy")
    found = data(validation={"held_out": {"path": "t.jsonl", "samples": 4, "sampler": "greedy"}})["validation"]
    assert found == {"held_out": {"source": full(FILE, path="t.jsonl"), "samples": 4, "sampler": greedy}}


def test_optimizers_by_class_name() -> None:
    adam = f"{AdamW.__module__}.AdamW"
    assert model(optimizer="AdamW")["optimizer"] == full(adam)
    assert model(optimizer={"name": "AdamW", "lr": 1e-5})["optimizer"] == full(adam, lr=1e-5)
    assert model(optimizer=full("torch.optim.AdamW", lr=1))["optimizer"] == full("torch.optim.AdamW", lr=1)


def test_what_is_resolved_resolves_to_itself() -> None:
    once = model(
        policy={"name": "causal_lm", "model": "a/b"},
        rewards=["exact_match", {"reward": POLITE, "name": "p"}, {"name": "length", "maximum": 4, "weight": 2}],
        kl="k2",
        warmup={"updates": 1},
        optimizer={"name": "AdamW", "lr": 1.0},
    )
    assert resolver().parameters(once, Model, "model") == once
    sets = data(train={"a": "sorting", "b": {"path": "x"}}, validation={"held_out": {"path": "x", "limit": 3}})
    assert resolver().parameters(sets, Data, "data") == sets


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"advantage": "leave_one_ot"}, "model.advantage: 'leave_one_ot' is no known advantage; "
         "did you mean 'leave_one_out'?"),
        ({"rewards": ["exact_match", "regx"]}, "model.rewards.1: 'regx' is no known reward; "
         "did you mean 'regex'?"),
        ({"kl": {"weight": 0.1}}, "model.kl: {} names no component of the kind kl; "
         "add name: one of abs, exact, k1, k2, k3, k3_plus, k3_unbiased"),
        ({"loss": {"name": "a", "class_path": "b"}}, "model.loss: {'name': 'a', 'class_path': 'b'} has both name and "
         "class_path; leave one of them out"),
        ({"warmup": {"updates": 1, "loss": "supervisd"}}, "model.warmup.loss: 'supervisd' is no known auxiliary; "
         "did you mean 'supervised'?"),
        ({"optimizer": "AdamX"}, "model.optimizer: 'AdamX' is no Optimizer; "
         "did you mean 'Adam' or 'RAdam' or 'NAdam'?"),
        ({"rewards": ["no_module.reward"]}, "model.rewards.0: 'no_module.reward' cannot be imported "
         "(ModuleNotFoundError: No module named 'no_module'); check the path and what is installed"),
    ],
)  # fmt: skip
def test_unknown_names(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        model(**values)
    assert str(raised.value) == message


def test_one_set_where_named_sets_go() -> None:
    with pytest.raises(ConfigError) as raised:
        data(validation={"path": "x.jsonl"})
    assert str(raised.value) == (
        "data.validation: {'path': 'x.jsonl'} is one component where several with names of your choice go; "
        "write data.validation.SOME_NAME.path"
    )


def test_values_of_the_wrong_form_are_left_for_the_check() -> None:
    assert model(loss=3, kl=["k2"], rewards="exact_match", unknown=1) == {
        **model(), "loss": 3, "kl": ["k2"], "rewards": "exact_match", "unknown": 1,
    }  # fmt: skip
