from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.kl.k2 import K2
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.rewards.entry import RewardEntry
from helpers.configured_classes import Data, Model, checker, polite, resolver

POLICY = {"name": "causal_lm", "model": "embedded://tiny-llama"}
GOOD: dict[str, Any] = {"policy": POLICY, "rewards": ["exact_match"]}


def check(owner: Any, path: str, **values: Any) -> dict[str, Any]:
    return checker().parameters(resolver().parameters(values, owner, path), owner, path)


def fault(owner: Any, path: str, **values: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        check(owner, path, **values)
    return str(raised.value)


def test_components_are_built_once_to_check_them() -> None:
    found = check(Model, "model", **GOOD, loss={"epsilon_high": 0.3}, kl={"name": "k2", "weight": 0.5})
    assert isinstance(found["loss"], ClippedPolicyLoss)
    assert found["loss"].epsilon_high == 0.3
    assert isinstance(found["rewards"][0], RewardEntry)
    assert isinstance(found["kl"].estimator, K2)
    assert found["kl"].weight == 0.5


def test_functions_and_named_sources_pass() -> None:
    check(Model, "model", policy=POLICY, rewards=[f"{polite.__module__}.polite"])
    check(Data, "data", train={"a": "sorting", "b": {"name": "arithmetic", "digits": 2}}, system_prompt=None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"grup_size": 4}, "model.grup_size: 4 is no setting; did you mean 'group_size'?"),
        ({"group_size": "eight"}, "model.group_size: 'eight' has the wrong type; set an integer"),
        ({"non_finite": "ignore"}, "model.non_finite: 'ignore' is no choice; set 'stop' or 'skip'"),
        ({"loss": {"epsilon_hihg": 0.3}}, "model.loss.epsilon_hihg: 0.3 is no option of 'clipped'; "
         "did you mean 'epsilon_high' or 'epsilon_low'?"),
        ({"loss": {"epsilon_low": "x"}}, "model.loss.epsilon_low: 'x' has the wrong type; set a number"),
        ({"loss": {"epsilon_low": -1}}, "model.loss.epsilon_low: -1.0 is outside [0, 1]; "
         "set a value inside that range"),
        ({"loss": 3}, "model.loss: 3 has the wrong form; set a component of the kind loss"),
        ({"policy": None}, "model.policy: None has the wrong form; set a component of the kind policy"),
        ({"policy": "causal_lm"}, "model.policy.model: None is missing: 'causal_lm' needs it; set it"),
        ({"policy": {**POLICY, "lora": {"rank": 0}}}, "model.policy.lora.rank: 0 is outside [1, inf]; "
         "set a value inside that range"),
        ({"rewards": "exact_match"}, "model.rewards: 'exact_match' has the wrong form; set a list"),
        ({"rewards": [3]}, "model.rewards.0: 3 has the wrong form; set a name or a mapping"),
        ({"rewards": ["exact_match", {"name": "length", "maximum": 0}]},
         "model.rewards.1.maximum: 0 is outside [1, inf]; set a value inside that range"),
        ({"rewards": ["exact_match", {"reward": "exact_match", "weight": "heavy"}]},
         "model.rewards.1.weight: 'heavy' has the wrong type; set a number"),
        ({"rewards": [{"reward": "exact_match", "gate": True, "weight": 2}]},
         "model.rewards.0.weight: 2.0 has no meaning for a gate; leave weight out"),
        ({"rewards": [{"reward": "exact_match", "wieght": 2}]},
         "model.rewards.0.wieght: 2 is no option of 'exact_match'; did you mean 'weight'?"),
        ({"kl": {"name": "k2", "weight": -1}}, "model.kl.weight: -1.0 is outside [0, inf); "
         "set a value inside that range"),
        ({"generation": {"stop": "x"}}, "model.generation.stop: 'x' has the wrong type; set a list of texts"),
        ({"generation": {"max_new_token": 3}}, "model.generation.max_new_token: 3 is no setting; "
         "did you mean 'max_new_tokens'?"),
        ({"generation": 3}, "model.generation: 3 has the wrong form; set a mapping"),
        ({"warmup": {}}, "model.warmup.updates: None is missing; set an integer"),
        ({"optimizer": {"name": "AdamW", "lrr": 1}}, "model.optimizer.lrr: 1 is no option of 'AdamW'; "
         "did you mean 'lr'?"),
        ({"lr_scheduler": "CosineAnnealingLR"},
         "model.lr_scheduler.T_max: None is missing: 'CosineAnnealingLR' needs it; set it"),
    ],
)  # fmt: skip
def test_every_fault_is_named_by_its_path(values: dict[str, Any], message: str) -> None:
    assert fault(Model, "model", **{**GOOD, **values}) == message


def test_missing_settings() -> None:
    assert fault(Model, "model", rewards=[]) == "model.policy: None is missing; set a component of the kind policy"
    assert fault(Model, "model", policy=POLICY) == "model.rewards: None is missing; set a list"
    assert fault(Data, "data") == (
        "data.train: None is missing; set a component of the kind prompts or a mapping of names"
    )


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        ({"name": "sorting", "samples": 0}, "data.validation.held_out.samples: 0 is outside [1, inf]; "
         "set a value inside that range"),
        ({"name": "sorting", "lenth": 2}, "data.validation.held_out.lenth: 2 is no option of 'sorting'; "
         "did you mean 'length'?"),
        ({"name": "sorting", "sampler": {"name": "top_k", "k": 0}}, "data.validation.held_out.sampler.k: 0 "
         "is outside [1, inf]; set a value inside that range"),
        ({"path": 3}, "data.validation.held_out.path: 3 has the wrong type; set text; quotes make text of it "
         "('\"3\"' on the command line)"),
    ],
)  # fmt: skip
def test_evaluation_sets_are_named_by_the_user(held_out: dict[str, Any], message: str) -> None:
    assert fault(Data, "data", train="sorting", validation={"held_out": held_out}) == message


def test_a_constructor_that_raises_is_told_in_one_line() -> None:
    message = fault(Model, "model", **{**GOOD, "loss": f"{__name__}.Broken"})
    assert message == "model.loss: 'broken' cannot be built (ZeroDivisionError: by hand); check its options"


class Broken(ClippedPolicyLoss):
    """A loss whose constructor raises."""

    name = "broken"

    def __init__(self) -> None:
        raise ZeroDivisionError("by hand")
