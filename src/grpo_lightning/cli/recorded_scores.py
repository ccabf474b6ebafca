"""Scores of recorded completions, by the path that a run's take."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grpo_lightning.cli.recorded_columns import PredictedColumns, check_recording
from grpo_lightning.cli.recorded_rows import Recording, read_recording
from grpo_lightning.cli.reward_setup import RewardSetup
from grpo_lightning.functional.groups import Groups
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.composer import Composed, compose, entry_name
from grpo_lightning.rewards.runner import score_entries
from grpo_lightning.rewards.scores import Scores


@dataclass(frozen=True)
class RecordedScores:
    """Rows, what each reward gave them, and what that comes to."""

    setup: RewardSetup
    recording: Recording
    scores: Scores
    composed: Composed
    stopping: frozenset[str]
    """Rewards whose failure would have stopped a run; here they abstain from the rows that failed."""

    @property
    def group_R(self) -> Tensor:
        """[R] int64."""
        return torch.tensor([episode.group for episode in self.recording.episodes])

    def count(self, name: str, key: str) -> float:
        """A count of one reward's calls, such as ``seconds``."""
        return float(self.scores.counts.get(name, {}).get(key, 0.0))

    def silent_groups(self) -> tuple[int, int]:
        """Groups of several scored rows whose rewards are all equal, and all groups of several scored rows."""
        rewards_R = self.composed.rewards_R
        rows = torch.isfinite(rewards_R).nonzero().squeeze(1)
        groups = Groups.of(self.group_R[rows])
        several_G = groups.sizes_G > 1
        equal_G = groups.unanimous(rewards_R[rows], self.scores.epsilon, self.composed.parts_R[rows])
        return int((equal_G & several_G).sum()), int(several_G.sum())


def recorded_scores(setup: RewardSetup, path: str, limit: int | None, known: Registry) -> RecordedScores:
    """Score the rows of a file.

    Args:
        setup: The rewards.
        path: The file, see :func:`~grpo_lightning.cli.recorded_rows.read_recording`.
        limit: Read the first lines only.
        known: What names mean.

    Raises:
        ConfigError: If a row is malformed, or lacks what a reward asks for.
        RewardError: If the composed reward of a row is not finite.
    """
    recording = read_recording(path, limit, PredictedColumns(path, setup.config, known))
    check_recording(setup.entries, recording)
    stopping = frozenset(entry_name(entry) for entry in setup.entries if entry.on_failure == "stop")
    # A look at rewards shows every failure, where a run would end at the first.
    entries = [replace(entry, on_failure="abstain") if entry.on_failure == "stop" else entry for entry in setup.entries]
    scores = score_entries(entries, recording.episodes, update=0, stage="try")
    return RecordedScores(setup, recording, scores, compose(entries, scores), stopping)
