"""Supervised learning on given answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.auxiliary.base import AuxiliaryLoss
from grpo_lightning.errors import DataError, require
from grpo_lightning.formula import Formula
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import FinishReason, Prompt, Ragged, Rollouts


class Supervised(AuxiliaryLoss):
    """``-(1/M) sum_t phi_t log pi(y_t)`` over the steps of given answers, M their number in the update on all ranks.

    ``phi`` is 1, or with ``weighting="phi"`` it is ``p (1 - p)`` of the step's probability ``p``, without gradient: steps that
    the policy is sure of, and those that it holds for impossible, teach little. ``M`` counts every step all the same.

    Source: for ``phi`` Zhang et al. (CHORD), arXiv 2508.11408.

    Args:
        target: Column that holds the whole answer.
        weighting: ``none`` or ``phi``.

    Example:
        >>> import torch
        >>> from grpo_lightning.auxiliary.supervised import Supervised
        >>> terms = Supervised(weighting="phi").terms(torch.tensor([0.5, 0.99]).double().log())
        >>> [round(term, 6) for term in terms.tolist()]  # 0.25 log 2 and 0.0099 log(1 / 0.99)
        [0.173287, 9.9e-05]
    """

    name = "supervised"
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {"answer": ["15", "no", ""]}

    def __init__(self, *, target: str = "answer", weighting: Literal["none", "phi"] = "none") -> None:
        require(weighting in ("none", "phi"), "weighting", weighting, "is no weighting", "set none or phi")
        self.target, self.weighting = target, weighting

    @override
    def formula(self) -> Formula:
        if self.weighting == "none":
            return Formula("L = -(1/M) sum_t log pi_theta(y_t)", r"\mathcal L_{SFT} = -\frac1M \sum_t \log \pi_\theta(y_t)",
                           {"M": "steps of the given answers in the update, on all ranks"})  # fmt: skip
        return Formula(
            "L = -(1/M) sum_t sg[p_t (1 - p_t)] log p_t",
            r"\mathcal L_{SFT} = -\frac1M \sum_t \operatorname{sg}[p_t (1 - p_t)] \log p_t",
            {"M": "steps of the given answers in the update, on all ranks", "p_t": "pi_theta(y_t)"},
            ("Zhang et al. (CHORD), arXiv 2508.11408",),
        )

    @override
    def rows(self, policy: Policy, prompts: Sequence[Prompt]) -> Rollouts:
        targets = []
        for prompt in prompts:
            text = prompt.columns.get(self.target)
            if text is None:
                raise DataError(f"{prompt.dataset}[{prompt.index}].{self.target}", text, "is no answer to learn from",
                                "fill the column or name another as target")  # fmt: skip
            targets.append(policy.encode_target(str(text)))
        encoded = [policy.encode(prompt) for prompt in prompts]
        for prompt, tokens, target in zip(prompts, encoded, targets, strict=True):
            length = tokens.shape[0] + target.shape[0]
            if length > policy.context_length:
                raise DataError(f"{prompt.dataset}[{prompt.index}]", f"{length} tokens",
                                f"of prompt and {self.target} are more than the context holds ({policy.context_length})",
                                "shorten the answer, or leave the row out")  # fmt: skip
        actions = Ragged.from_list(targets, torch.int64)
        index = torch.arange(len(prompts))
        steps = actions.values.shape[0]
        return Rollouts(
            prompts=Ragged.from_list(encoded, torch.int64),
            prompt_R=index,
            group_R=index,
            member_R=torch.zeros_like(index),
            trajectory_R=index,
            attempt_R=torch.zeros_like(index),
            finish_R=torch.full_like(index, int(FinishReason.STOP)),
            temperature_R=torch.ones(len(prompts)),
            version_R=torch.zeros_like(index),
            actions=actions,
            trainable_S=torch.ones(steps, dtype=torch.bool),
            turn_S=torch.zeros(steps, dtype=torch.int64),
            behaviour_log_probs_S=torch.zeros(steps),
        )

    @override
    def normaliser(self, rows: Rollouts) -> float:
        return float(rows.trainable_S.sum())

    @override
    def terms(self, log_probs_S: Tensor) -> Tensor:
        if self.weighting == "none":
            return -log_probs_S
        fixed_S = log_probs_S.detach()
        return (fixed_S.exp() * torch.expm1(fixed_S)) * log_probs_S
