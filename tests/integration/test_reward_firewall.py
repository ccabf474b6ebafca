"""A reward may do what it likes: the run ends, counts it, and has the gradient that the declared policy gives."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.callbacks.rollout_metrics import rollout_metrics
from grpo_lightning.errors import RewardError
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from helpers import hostile_rewards
from helpers.tiny_policy import tiny_policy
from helpers.tiny_run import Watch, fit, make_module

pytestmark = pytest.mark.slow

KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # Function, kind under which it is counted, and further fields of the entry.
    "raises": ("raises", "raised", {}),
    "raises in a process": ("raises", "raised", {"isolation": "process"}),
    "SystemExit": ("leaves", "raised", {}),
    "SystemExit in the calling thread": ("leaves", "raised", {"timeout": None}),
    "SystemExit in a process": ("leaves", "raised", {"isolation": "process"}),
    "hangs in a thread": ("hangs", "timeout", {"timeout": 0.4}),
    "hangs in a process": ("hangs", "timeout", {"timeout": 0.4, "isolation": "process"}),
    "wrong length": ("short", "wrong_length", {}),
    "wrong length in a process": ("short", "wrong_length", {"isolation": "process"}),
    "no number": ("text", "no_number", {}),
    "NaN": ("nan", "not_finite", {}),
    "infinity": ("infinity", "not_finite", {}),
    "tensor with gradient": ("gradient", "gradient", {}),
    "tensor with gradient in a process": ("gradient", "gradient", {"isolation": "process"}),
    "out of range": ("outside", "out_of_range", {"range": [0.0, 1.0]}),
    "dies in a process": ("dies", "crashed", {"isolation": "process"}),
    "hangs awaiting": ("hangs_awaiting", "timeout", {"timeout": 0.4}),
    "blocks the loop": ("blocks_the_loop", "timeout", {"timeout": 0.4}),
    "swallows its cancellation": ("swallows_cancellation", "timeout", {"timeout": 0.4}),
}
POLICIES: dict[Any, str] = {"abstain": "abstaining", -0.5: "numbering", "drop_group": "silencing"}
"""What the reward itself would have returned."""


def train(folder: Path, function: str, **fields: Any) -> Watch:
    torch.manual_seed(3)
    reward = FunctionReward(function=getattr(hostile_rewards, function))
    entry = RewardEntry(reward=reward, name="x", **fields)
    return fit(folder, make_module(tiny_policy(), rewards=[entry]))


@cache
def gradient(function: str, folder: Path) -> dict[str, Tensor]:
    return train(folder, function).change(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_run_goes_on_as_the_policy_says(kind: str, policy: Any, folder: Path) -> None:
    function, counted, fields = KINDS[kind]
    began = time.monotonic()
    watch = train(folder, function, per_call="row", on_failure=policy, **fields)
    assert time.monotonic() - began < 100  # a hang is one of 200 s
    expected, found = gradient(POLICIES[policy], folder), watch.change(0)
    assert any(each.abs().max() > 0 for each in expected.values())
    assert all(torch.equal(found[name], each) for name, each in expected.items())
    metrics = rollout_metrics(watch.rollout_reports[0])
    assert metrics["reward/x/failures"] == 1.0
    assert metrics[f"reward/x/failures/{counted}"] == 1.0
    assert metrics.get("reward/x/groups_dropped") == (1.0 if policy == "drop_group" else None)
    left = kind in ("hangs in a thread", "blocks the loop", "swallows its cancellation")
    assert metrics.get("reward/x/abandoned") == (1.0 if left else None)
    lost = {"abstain": 1, "drop_group": 4}.get(policy, 0)
    assert metrics["reward/abstained_fraction"] == pytest.approx(lost / 12)


@pytest.mark.parametrize("kind", KINDS)
def test_stop_names_the_reward_and_the_row(kind: str, folder: Path) -> None:
    function, _, fields = KINDS[kind]
    with pytest.raises(
        RewardError, match=r"^reward 'x' .* \(group 1, member 1, prompt 'ab'\); mend the reward, or set "
    ):
        train(folder, function, per_call="row", **fields)
