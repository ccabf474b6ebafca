"""Rewards for mathematics: answers checked with math-verify, and the form in which they are given.

``math_answer`` compares, ``math_format`` looks at boxes and thinking blocks. What both share: ``boxes`` finds boxes,
``limits`` keeps away what would take for ever, ``expressions`` reads and names answers.
"""

from __future__ import annotations

from grpo_lightning import hookimpl
from grpo_lightning.rewards.base import Reward
from grpo_lightning_math.math_answer import MathAnswer as MathAnswer
from grpo_lightning_math.math_format import MathFormat as MathFormat

GRPO_LIGHTNING_API = 1


@hookimpl
def grpo_register_reward() -> list[type[Reward]]:
    return [MathAnswer, MathFormat]
