"""Returns-to-go minus the reward of the prompt's greedy completion (ReMax)."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import StepAdvantage
from grpo_lightning.formula import Formula
from grpo_lightning.functional.returns import returns_to_go
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import RolloutTable


class ReMax(StepAdvantage):
    """ReMax's advantage, ``A_it = sum_{s>=t} r_is - b_g``, ``b_g`` the reward of the greedy completion of the prompt.

    ``r_is`` is what step ``s`` of row ``i`` earned, so without a KL in the reward and without rewards for turns all steps
    of a row share ``r_i - b_g``. ``b_g`` carries no KL penalty. The baseline depends on the policy but not on what was
    sampled, so the gradient stays unbiased; it costs one more completion a prompt. In units of reward; nothing is
    normalised. No statistic of a group enters: groups of one are allowed, and a group whose rewards are all equal keeps
    its distance from ``b_g``. Rows whose greedy completion abstains get 0.

    Source: Li et al., arXiv 2310.10505, algorithm 1 for the reward of a whole row; the sum over later steps is how the KL
    penalty of each step enters.

    Example:
        >>> import torch
        >>> from grpo_lightning.advantages.remax import ReMax
        >>> from grpo_lightning.steps import RolloutSteps
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([1.0, 0.0], groups=[0, 0], greedy_rewards_R=torch.tensor([1.0, 0.25]))
        >>> steps = RolloutSteps(torch.tensor([0, 1, 1]), torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]).double())
        >>> ReMax()(table, steps).tolist()  # greedy completions earned 1 and 0.25
        [0.0, -0.25, -0.25]
    """

    name = "remax"
    under_shift = "invariant"
    under_scale = "equivariant"
    compares = False
    greedy = True

    @override
    def formula(self) -> Formula:
        return Formula(
            text="A_it = sum_{s>=t} r_is - b_g",
            latex=r"A_{i,t} = \sum_{s \ge t} r_{i,s} - b_g",
            symbols={
                "r_is": "what step s of row i earned, a KL in the reward included",
                "b_g": "reward of the greedy completion of the row's prompt",
            },
            sources=("Li et al., ReMax, arXiv 2310.10505",),
        )

    @override
    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        if table.greedy_rewards_R is None:
            raise ValueError(
                "advantage 'remax' subtracts the reward of each prompt's greedy completion, and the table has none; "
                "sample one completion of every prompt greedily and put its reward into greedy_rewards_R"
            )
        baseline_S = table.greedy_rewards_R[steps.row_S]
        return torch.where(baseline_S.isnan(), 0.0, returns_to_go(steps.rewards_S, steps.row_S) - baseline_S)
