"""Supervised learning on given answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.auxiliary.base import AuxiliaryLoss
from grpo_lightning.errors import DataError
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import FinishReason, Prompt, Ragged, Rollouts


class Supervised(AuxiliaryLoss):
    """``-(1 / T) sum_t log pi(y_t)`` over the tokens of given answers, T their number in the update on all ranks.

    Args:
        target: Column that holds the whole answer.
    """

    name = "supervised"

    def __init__(self, *, target: str = "answer") -> None:
        self.target = target

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
        return -log_probs_S
