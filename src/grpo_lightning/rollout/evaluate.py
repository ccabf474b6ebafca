"""Completing and scoring the prompts of an evaluation set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from grpo_lightning.rewards.composer import compose, entry_name
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rollout.play import Group, PlaySettings, play
from grpo_lightning.types import Episode, FinishReason


@dataclass(frozen=True)
class EvaluatedRow:
    """One completion of a held-out prompt."""

    episode: Episode
    index: int
    """Index of its prompt in the evaluation set."""
    reward: float | None
    components: dict[str, float | None]
    correct: bool
    """Whether the first reward of the list gave at least the set's threshold."""
    answer: str
    log_prob: float
    """Sum over the steps that the policy wrote."""
    length: int

    def statistics(self) -> dict[str, Any]:
        """What :class:`~grpo_lightning.evaluation.EvaluationMetrics` takes."""
        return {
            "prompt_index": self.index,
            "reward": self.reward,
            "components": self.components,
            "correct": self.correct,
            "answer": self.answer,
            "length": self.length,
            "truncated": self.episode.finish is FinishReason.LENGTH,
        }

    def prediction(self) -> dict[str, Any]:
        """What ``predict`` writes."""
        prompt = self.episode.prompt
        return {
            "dataset": prompt.dataset,
            "index": prompt.index,
            "prompt": prompt.messages if isinstance(prompt.messages, str) else [dict(each) for each in prompt.messages],
            "sample": self.episode.member,
            "completion": self.episode.completion,
            "turns": [turn.text for turn in self.episode.turns],
            "answer": self.answer,
            "correct": self.correct,
            "reward": self.reward,
            "components": self.components,
            "log_prob": self.log_prob,
            "length": self.length,
            "finish": self.episode.finish.name.lower(),
        }


def evaluate(
    settings: PlaySettings,
    firewall: Firewall,
    groups: Sequence[Group],
    indices: Sequence[int],
    *,
    version: int,
    threshold: float,
) -> list[EvaluatedRow]:
    """Complete and score some prompts. Draws do not depend on the update, so that evaluations are comparable.

    Args:
        settings: Who plays, with the set's sampler and number of samples.
        firewall: The rewards.
        groups: The prompts; ordinals are their addresses.
        indices: Index of each group's prompt in its set.
        version: Optimizer steps that the weights have seen.
        threshold: Raw score of the first reward from which on a completion is correct.
    """
    asked: dict[str, Any] = {"update": version, "stage": settings.stream}
    finished = partial(firewall.submit, **asked) if firewall.overlaps else None
    _, episodes = play(settings, groups, rollout=0, attempt=0, version=version, finished=finished)
    scores = firewall.scores(episodes, **asked)
    rewards_R = compose(firewall.entries, scores).rewards_R.tolist()
    index = {group.ordinal: position for group, position in zip(groups, indices, strict=True)}
    first = firewall.entries[0]
    rows = []
    for row, episode in enumerate(episodes):
        score = scores.raw[entry_name(first)][row]
        reward = rewards_R[row]
        rows.append(
            EvaluatedRow(
                episode=episode,
                index=index[episode.group],
                reward=None if reward != reward else reward,
                components={name: values[row] for name, values in scores.raw.items()},
                correct=score is not None and score >= threshold,
                answer=first.reward.answer(episode.completion),
                log_prob=sum(episode.log_probs),
                length=len(episode.log_probs),
            )
        )
    return rows
