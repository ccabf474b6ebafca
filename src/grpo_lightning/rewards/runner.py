"""Scores of some rows, once."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.scores import Scores
from grpo_lightning.types import Episode


def score_entries(entries: Sequence[RewardEntry], episodes: Sequence[Episode], *, update: int, stage: str) -> Scores:
    """Raw scores of every row by every entry, by a firewall that is closed again.

    Args:
        entries: The list of rewards.
        episodes: Rows of whole groups.
        update: Optimizer steps taken so far.
        stage: ``train``, ``validation/NAME`` or ``test/NAME``.

    Raises:
        RewardError: If a score fails under ``on_failure: stop``.
        ConfigError: If a reward raises it, or asks for a column that a row lacks.
    """
    with Firewall(entries) as firewall:
        return firewall.scores(episodes, update=update, stage=stage)
