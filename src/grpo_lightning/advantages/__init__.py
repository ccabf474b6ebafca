"""Advantage estimators: what a reward means.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.advantages.base.Advantage`, its
name in ``builtins.py``, a line in this file, and a test with values worked out by hand in ``tests/unit/advantages``.
A pip package registers its own with the hook ``grpo_register_advantage``.
"""

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.advantages.leave_one_out import LeaveOneOut
from grpo_lightning.advantages.mean_centered import MeanCentered
from grpo_lightning.advantages.rank_based import RankBased

__all__ = ["Advantage", "GroupNorm", "LeaveOneOut", "MeanCentered", "RankBased"]
