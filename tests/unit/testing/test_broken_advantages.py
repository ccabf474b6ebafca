"""Estimators with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.advantages.base import Advantage, StepAdvantage
from grpo_lightning.functional.groups import Groups
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.testing import advantages
from grpo_lightning.types import RolloutTable
from helpers.failures import assert_fails_only, failures


class Centered(Advantage):
    """Rewards minus their group's mean: a sound one."""

    name = "centered"

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return groups.centered(rewards_R)


class PerStep(StepAdvantage):
    """What a row earned from each step on, in rows that compare with nothing: a sound one."""

    name = "per_step"
    compares = False
    under_scale = "equivariant"

    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        return table.rewards_R[steps.row_S]


class Undeclared(PerStep):
    """Reads entropies without saying so."""

    name = "undeclared"

    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        return table.rewards_R[steps.row_S] + 0 * steps.functionals["entropy"]


class SinglePrecision(Centered):
    """Gives float32."""

    name = "single_precision"

    def __call__(self, table: RolloutTable, steps: RolloutSteps | None = None) -> Tensor:
        return super().__call__(table, steps).float()


class PunishesAbstention(Centered):
    """Gives rows that abstain something."""

    name = "punishes_abstention"

    def __call__(self, table: RolloutTable, steps: RolloutSteps | None = None) -> Tensor:
        return torch.where(table.valid_R, super().__call__(table, steps), -1.0)


class CountsAbstention(PerStep):
    """Counts rows that abstain as 0 in its mean."""

    name = "counts_abstention"
    batch_statistics = True
    under_scale = None

    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        rewards_R = table.rewards_R.nan_to_num(nan=0.0)
        return (rewards_R - rewards_R.mean())[steps.row_S]


class RoundingNoise(Centered):
    """Subtracts a mean that is not exact, and takes no group for silent."""

    name = "rounding_noise"

    def silent(self, groups: Groups, valid: RolloutTable) -> Tensor:
        return groups.sizes_G < 2

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return rewards_R - (groups.sum(rewards_R) / groups.sizes_G)[groups.index_R]


class RewardsTheLonely(Centered):
    """Gives a group of one its raw reward."""

    name = "rewards_the_lonely"

    def silent(self, groups: Groups, valid: RolloutTable) -> Tensor:
        return super().silent(groups, valid) & (groups.sizes_G > 1)

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return torch.where((groups.sizes_G == 1)[groups.index_R], rewards_R, groups.centered(rewards_R))


class AgainstAll(Advantage):
    """Measures from the mean of the rollout, and does not say so."""

    name = "against_all"

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return rewards_R - rewards_R.mean()


class AgainstTheFirst(Advantage):
    """Measures from the row of the group that happens to stand first."""

    name = "against_the_first"

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        index = groups.index_R.tolist()
        first = torch.tensor([index.index(group) for group in range(len(groups))])
        return rewards_R - rewards_R[first][groups.index_R]


class Exponential(Advantage):
    """Takes rewards to be small."""

    name = "exponential"

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return groups.centered(rewards_R.exp())


class GrowsWithCalls(Centered):
    """Gives more at every call."""

    name = "grows_with_calls"

    def __init__(self) -> None:
        self.calls = 0

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        self.calls += 1
        return groups.centered(rewards_R) * self.calls


class WritesLengths(Centered):
    """Changes the lengths of rows once they are final."""

    name = "writes_lengths"

    def observe(self, table: RolloutTable) -> None:
        table.lengths_R.clamp_(max=2)


class Forgets(Centered):
    """Learns, and keeps nothing of it in its state."""

    name = "forgets"

    def __init__(self) -> None:
        self.seen = 0.0

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return groups.centered(rewards_R) / (1.0 + self.seen)

    def observe(self, table: RolloutTable) -> None:
        self.seen += len(table)


class LendsItsState(Forgets):
    """Gives its own dictionary away."""

    name = "lends_its_state"

    def __init__(self) -> None:
        self.seen = 0.0
        self.state: dict[str, float] = {"seen": 0.0}

    def observe(self, table: RolloutTable) -> None:
        self.seen += len(table)
        self.state["seen"] = self.seen

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = dict(state)
        self.seen = state["seen"]


class Relative(Advantage):
    """Divides by the mean, and promises that a shift changes nothing."""

    name = "relative"
    under_shift = "invariant"

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return groups.centered(rewards_R) / (1.0 + groups.max(rewards_R.abs())[groups.index_R])


class WrongUnit(Centered):
    """Is in units of reward, and promises to have none."""

    name = "wrong_unit"
    under_shift = "invariant"
    under_scale = "invariant"


class DrawsForAll(Centered):
    """Draws from the random numbers that all share."""

    name = "draws_for_all"

    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        torch.rand(1)
        return groups.centered(rewards_R)


BROKEN = [
    (Undeclared, "asks_for_what_it_reads", "declare it on the class: functionals"),
    (SinglePrecision, "gives_finite_numbers", "compute in float64"),
    (PunishesAbstention, "gives_invalid_rows_nothing", "mask by table.valid_R"),
    (CountsAbstention, "gives_invalid_rows_nothing", "are in no statistic"),
    (RoundingNoise, "is_silent_where_rewards_are_equal", "rounding leaves noise in equal rewards"),
    (RewardsTheLonely, "is_silent_for_a_group_of_one", "An estimator without group statistics says compares = False"),
    (AgainstAll, "keeps_groups_apart", "batch_statistics = True"),
    (AgainstTheFirst, "goes_with_the_rows", "members need not stand side by side"),
    (Exponential, "stays_finite_on_extremes", "an overflow of exp"),
    (GrowsWithCalls, "does_not_change_by_being_asked", "change the state in observe(table)"),
    (WritesLengths, "leaves_its_table_alone", "['lengths_R'] is tensor"),
    (Forgets, "goes_on_from_its_state", "give in state_dict whatever observe changes"),
    (LendsItsState, "gives_a_state_that_stays", "return copies"),
    (Relative, "keeps_its_promise_under_shift", "or declare under_shift = None"),
    (WrongUnit, "keeps_its_promise_under_scale", "declare under_scale as it is"),
    (DrawsForAll, "leaves_the_process_alone", "estimating changed torch's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in advantages.CHECKS}


@pytest.mark.parametrize("component", [Centered, PerStep])
def test_a_good_one_passes(component: type) -> None:
    assert failures(component) == {}
