"""Estimators that give each step a value, and those that ask the engine or the environment for more, in the real loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning import GRPODataModule, create
from grpo_lightning.advantages.base import Advantage, StepAdvantage
from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.functional.groups import Groups
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.prompts.records import Records
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.environment import EnvironmentReward
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rollout.table import key
from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.settings import Generation
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.transforms.clip import ClipAdvantage
from grpo_lightning.types import Episode, RolloutTable
from helpers.tiny_policy import row_distributions, tiny_policy
from helpers.tiny_run import PROMPTS, fit, make_module, spread


class Watching(StepAdvantage):
    """Return-to-go, and everything that it was shown."""

    name = "test_watching"
    compares = False
    functionals = frozenset({"sum_of_squares"})

    def __init__(self) -> None:
        self.seen: list[tuple[RolloutTable, RolloutSteps]] = []
        self.observed: list[RolloutTable] = []

    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        self.seen.append((table, steps))
        values = steps.rewards_S.clone()
        for index in range(len(values) - 2, -1, -1):
            if steps.row_S[index] == steps.row_S[index + 1]:
                values[index] += values[index + 1]
        return values

    def observe(self, table: RolloutTable) -> None:
        self.observed.append(table)


def test_a_kl_in_the_reward_is_paid_step_by_step(tmp_path: Path) -> None:
    """The reference is the policy of now, so the policy is moved between: by a first update of size 0.05."""
    estimator, policy = Watching(), tiny_policy()
    kl = KLTerm(estimator=create("kl", "k1"), weight=0.3, where="reward")
    module = make_module(policy, advantage=estimator, kl=kl, optimizer=lambda p: torch.optim.SGD(p, lr=0.05))
    watch = fit(tmp_path, module, max_steps=2)
    reference, moved = tiny_policy(), tiny_policy()
    with torch.no_grad():
        for name, parameter in moved.named_parameters():
            parameter.copy_(watch.weights[1][name])
    table, steps = estimator.seen[1]
    rollouts = watch.rollouts[1]
    texts = [policy.decode(each) for each in rollouts.actions.tolist()]
    position = 0
    for row, (prompt, actions) in enumerate(zip(rollouts.prompt_R.tolist(), rollouts.actions.tolist(), strict=True)):
        tokens = rollouts.prompts.tolist()[prompt]
        with torch.no_grad():
            lp, ref = (row_distributions(each.causal_lm, tokens, actions) for each in (moved, reference))
        paid = [0.3 * float(lp[step, token] - ref[step, token]) for step, token in enumerate(actions)]
        earned = [-each for each in paid]
        earned[-1] += spread([texts[row]])[0]
        found = steps.rewards_S[position : position + len(actions)].tolist()
        assert found == pytest.approx(earned, abs=1e-9)
        assert float(table.rewards_R[row]) == pytest.approx(sum(earned), abs=1e-9)
        squares = (lp.exp() ** 2).sum(-1).tolist()
        assert steps.functionals["sum_of_squares"][position : position + len(actions)].tolist() == pytest.approx(
            squares
        )
        to_go = [sum(earned[step:]) for step in range(len(actions))]
        assert module.session.buffer is not None
        advantages = module.session.buffer.advantages_S[rollouts.actions.positions(torch.tensor([row]))].tolist()
        assert advantages == pytest.approx(to_go, abs=1e-9)
        position += len(actions)
    assert position == len(steps.rewards_S)
    assert any(abs(each) > 1e-3 for each in steps.rewards_S.tolist())


def test_a_rollout_is_observed_once_however_often_groups_are_drawn_again(tmp_path: Path) -> None:
    class Twice(Selector):
        name = "test_twice"

        def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
            again = torch.unique(table.group_R)[:2] if attempt < 2 else torch.zeros(0, dtype=torch.int64)
            return Selection(table.valid_R, again)

    estimator = Watching()
    fit(tmp_path, make_module(tiny_policy(), advantage=estimator, selector=Twice(), learning_rate=1e-3), max_steps=2)
    assert len(estimator.seen) == 6
    assert len(estimator.observed) == 2
    for final, (last, _) in zip(estimator.observed, estimator.seen[2::3], strict=True):
        assert torch.equal(final.rewards_R, last.rewards_R)


def greedy_text(policy: CausalLM, prompt: str, most: int) -> str:
    tokens, written = policy.tokenizer.encode(prompt), []
    for _ in range(most):
        with torch.no_grad():
            logits = policy.causal_lm(input_ids=torch.tensor([tokens + written]), use_cache=False).logits[0, -1]
        written.append(int(logits.argmax()))
        if written[-1] in policy.stop_ids:
            break
    return policy.decode(written)


class Greedy(Advantage):
    """Reward less that of the greedy completion."""

    name = "test_greedy"
    compares = False
    greedy = True

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        assert table.greedy_rewards_R is not None
        self.baselines = table.greedy_rewards_R
        return rewards_R - table.greedy_rewards_R


def test_the_engine_is_asked_for_greedy_completions(tmp_path: Path) -> None:
    estimator, policy = Greedy(), tiny_policy()
    expected = [spread([greedy_text(policy, prompt, 6)])[0] for prompt in PROMPTS[:3]]
    watch = fit(tmp_path, make_module(policy, advantage=estimator))
    assert estimator.baselines.tolist() == [each for each in expected for _ in range(4)]
    report = watch.rollout_reports[0]
    assert report.advantages_R.tolist() == (report.table.rewards_R - estimator.baselines).tolist()


class Pairs(Selector):
    """Advantages over the first two members of each group."""

    name = "test_pairs"

    def subset(self, table: RolloutTable) -> Tensor:
        return table.member_R < 2

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R, torch.zeros(0, dtype=torch.int64))


def test_advantages_are_those_of_the_subset_and_the_rest_does_not_train(tmp_path: Path) -> None:
    watch = fit(tmp_path, make_module(tiny_policy(), advantage="mean_centered", selector=Pairs()))
    report = watch.rollout_reports[0]
    for group in range(3):
        rewards = report.table.rewards_R[4 * group : 4 * group + 4].tolist()
        mean = (rewards[0] + rewards[1]) / 2
        wanted = [rewards[0] - mean, rewards[1] - mean, 0.0, 0.0]
        assert report.advantages_R[4 * group : 4 * group + 4].tolist() == pytest.approx(wanted, abs=1e-15)
    assert report.keep_R.tolist() == [True, True, False, False] * 3


def test_columns_reach_the_estimator_and_missing_ones_are_named(tmp_path: Path) -> None:
    class Labelled(Watching):
        name = "test_labelled"
        columns = ("role",)

    rows = [{"prompt": prompt, "answer": "x", "role": index % 2} for index, prompt in enumerate(PROMPTS)]
    data = GRPODataModule(train=Records(rows=rows), curriculum=create("curriculum", "sequential"))
    estimator = Labelled()
    fit(tmp_path, make_module(tiny_policy(), advantage=estimator), data=data)
    labels = estimator.seen[0][0].labels["role"].tolist()
    assert labels[:4] == labels[8:] != labels[4:8]
    with pytest.raises(DataError, match=r"model\.advantage\.columns: 'role' is no column of the training data"):
        fit(tmp_path, make_module(tiny_policy(), advantage=Labelled()))


def test_a_step_estimator_takes_no_transform_of_rows() -> None:
    with pytest.raises(ConfigError, match=r"model\.transforms\.0: 'clip' takes one value a row and follows advantage"):
        make_module(tiny_policy(), advantage=Watching(), transforms=[ClipAdvantage(limit=1.0)])


def test_a_group_too_small_for_the_estimator_is_refused() -> None:
    class Large(Greedy):
        name = "test_large"

        @property
        def smallest_group(self) -> int:
            return 9

    with pytest.raises(ConfigError, match=r"model\.group_size: 4 is below what advantage 'test_large' needs, 9"):
        make_module(tiny_policy(), advantage=Large())


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"rewards": [RewardEntry(reward=FunctionReward(function=spread)),
                      RewardEntry(reward=FunctionReward(function=spread), gate=True, name="g")]}, "model.rewards.1.gate"),
        ({"kl": KLTerm(estimator=create("kl", "k1"), where="reward")}, "model.kl.where"),
    ],
)  # fmt: skip
def test_estimators_of_single_rewards_refuse_what_they_would_not_see(settings: dict[str, Any], setting: str) -> None:
    class Single(Greedy):
        name = "test_single"
        reads_components = True

    with pytest.raises(ConfigError, match=f"^{setting}: "):
        make_module(tiny_policy(), advantage=Single(), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"advantage": create("advantage", "pass_at_k", k=4)},
         r"model\.group_size: 4 is below what advantage 'pass_at_k' needs, 5"),
        ({"advantage": create("advantage", "pkpo", k=3), "selector": create("selector", "max_variance", keep=2)},
         r"model\.selector: 'max_variance' leaves advantage 'pkpo' 2 rows of a group, and it needs 3"),
        ({"selector": create("selector", "max_variance", keep=4)}, r"model\.selector\.keep: 4 keeps every row of groups of 4"),
        ({"advantage": "maxrl", "kl": KLTerm(estimator=create("kl", "k1"), where="reward")},
         r"model\.kl\.where: 'reward' makes rewards that advantage 'maxrl' has no meaning for"),
        ({"advantage": create("advantage", "pass_at_k", k=2), "kl": KLTerm(estimator=create("kl", "k1"), where="reward")},
         r"model\.kl\.where: 'reward' makes rewards that advantage 'pass_at_k' has no meaning for"),
        ({"advantage": "gigpo"}, r"model\.advantage: 'gigpo' compares turns that begin in equal states, and environment"),
    ],
)  # fmt: skip
def test_what_could_never_train_is_refused_at_start(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_module(tiny_policy(), **settings)


def test_rewards_that_are_equal_but_for_the_rounding_of_their_parts_have_no_signal(tmp_path: Path) -> None:
    """100.1 - 100 and 50.1 - 50 in float32 are 0.1 but for the rounding of 100 and 50."""

    def high(completions: Sequence[str]) -> Tensor:
        return torch.tensor([100.1, 50.1, 30.1, 70.1] * (len(completions) // 4))

    def low(completions: Sequence[str]) -> Tensor:
        return torch.tensor([100.0, 50.0, 30.0, 70.0] * (len(completions) // 4))

    entries = [
        RewardEntry(reward=FunctionReward(function=high)),
        RewardEntry(reward=FunctionReward(function=low), weight=-1.0),
    ]
    for advantage in ("group_norm", "rank_based", "leave_one_out"):
        watch = fit(tmp_path / advantage, make_module(tiny_policy(), rewards=entries, advantage=advantage))
        report = watch.rollout_reports[0]
        assert len(set(report.table.rewards_R[:4].tolist())) > 1
        assert report.advantages_R.tolist() == [0.0] * 12


def no_reward(completions: Sequence[str]) -> list[float | None]:
    return [None for _ in completions]


def test_a_greedy_completion_may_abstain(tmp_path: Path) -> None:
    estimator = Greedy()
    module = make_module(
        tiny_policy(), advantage=estimator, rewards=[RewardEntry(reward=FunctionReward(function=no_reward))]
    )
    watch = fit(tmp_path, module)
    assert not bool(watch.rollout_reports[0].table.valid_R.any())
    greedy = watch.rollout_reports[0].table.greedy_rewards_R
    assert greedy is not None
    assert all(math.isnan(each) for each in greedy.tolist())


class Doors(Environment):
    """Two turns: every row begins in state ``hall``; the second turn begins in ``left`` or ``right``, by the member."""

    name = "test_doors"
    max_turns = 2
    max_observation_tokens = 4
    gives_states = True

    def start(self, episodes: Sequence[Episode]) -> list[str | None]:
        return ["hall"] * len(episodes)

    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        return [
            Observation(text="go", reward=0.5, state=("left", "right")[episode.member % 2])
            if len(episode.turns) == 1
            else Observation(reward=float(episode.member))
            for episode in episodes
        ]


def test_states_and_rewards_of_turns_reach_the_estimator(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rewards": [RewardEntry(reward=EnvironmentReward())], "environment": Doors()}
    settings["generation"] = Generation(max_new_tokens=3, stop=list("etaoinshrdlu0123456789"))
    estimator = Watching()
    watch = fit(tmp_path / "seen", make_module(tiny_policy(), advantage=estimator, **settings))
    table, steps = estimator.seen[0]
    assert steps.state_S is not None
    members = table.member_R[steps.row_S].tolist()
    turns = steps.turn_S.tolist()
    assert {0, 1} == set(turns), "no row had a second turn: the case says nothing"
    for member, turn, state in zip(members, turns, steps.state_S.tolist(), strict=True):
        assert state == key("hall" if turn == 0 else ("left", "right")[member % 2])
    for row in sorted(set(steps.row_S.tolist())):
        for turn in (0, 1):
            mine = (steps.row_S == row) & (steps.turn_S == turn)
            if bool(mine.any()):
                earned = steps.rewards_S[mine].tolist()
                wanted = 0.5 if turn == 0 else float(table.member_R[row])
                assert earned == [0.0] * (len(earned) - 1) + [wanted]
    assert len(watch.reports) == 1
    ran = fit(tmp_path / "gigpo", make_module(tiny_policy(), advantage="gigpo", **settings))
    assert any(bool(each.any()) for each in ran.change(0).values())
