"""A language model as judge over the OpenAI-compatible protocol: six rewards.

One more is a subclass of :class:`grpo_lightning_judge.base.JudgeReward` in a file of its own, returned by the hook below.
"""

from __future__ import annotations

from grpo_lightning import hookimpl
from grpo_lightning.rewards.base import Reward
from grpo_lightning_judge.anchors import JudgeAnchors
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.listwise import JudgeListwise
from grpo_lightning_judge.pairwise import JudgePairwise
from grpo_lightning_judge.rubric import JudgeRubric
from grpo_lightning_judge.score import JudgeScore
from grpo_lightning_judge.tie_break import JudgeTieBreak

__all__ = [
    "Endpoint",
    "JudgeAnchors",
    "JudgeError",
    "JudgeListwise",
    "JudgePairwise",
    "JudgeRubric",
    "JudgeScore",
    "JudgeTieBreak",
]


@hookimpl
def grpo_register_reward() -> list[type[Reward]]:
    return [JudgeScore, JudgeRubric, JudgePairwise, JudgeAnchors, JudgeListwise, JudgeTieBreak]
