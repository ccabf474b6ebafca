"""The columns of prompts that ``predict`` completed, and whether rewards find what they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grpo_lightning.cli.checks import Checker
from grpo_lightning.cli.recorded_rows import Recording, fault
from grpo_lightning.cli.resolve import Resolver
from grpo_lightning.data.prompt_set import PromptFormat
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.arguments import requested_arguments
from grpo_lightning.rewards.base import RESERVED_ARGUMENTS
from grpo_lightning.rewards.calls import applies_to
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.settings import EvaluationSet

UNRECORDED = ("log_probs",)
"""Arguments of rewards that no recording has."""


class _Data:
    """The part of the data's settings that is built here."""

    def __init__(
        self, *, validation: dict[str, EvaluationSet] | None = None, test: dict[str, EvaluationSet] | None = None
    ) -> None:
        self.sets = dict(validation or {}) if test is None else dict(test)


class PredictedColumns:
    """Looks up the row of the data set that a prediction belongs to: ``predict`` writes no columns.

    Args:
        path: The file of predictions.
        config: The configuration, whose evaluation sets are meant.
        known: What names mean.
    """

    def __init__(self, path: str, config: Mapping[str, Any], known: Registry) -> None:
        self.path, self.config, self.known = path, config, known
        self._sources: dict[str, PromptSource] = {}
        self._sets: dict[str, EvaluationSet] | None = None

    def __call__(self, line: int, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The columns of a prediction's prompt.

        Raises:
            ConfigError: If the configuration has no such data set, or another prompt stands there.
        """
        source, index, data = self._source(line, str(row["dataset"])), row["index"], self.config.get("data") or {}
        if not isinstance(index, int) or not 0 <= index < len(source):
            raise fault(self.path, line, f"has index {index!r}, and the data set {len(source)} rows",
                        "give the configuration that the predictions were made with")  # fmt: skip
        columns = dict(source[index])
        form = PromptFormat(data.get("system_prompt"), data.get("prefill"), bool(data.get("chat", False)))
        messages = form.messages(columns.pop("prompt"))
        shown = messages if isinstance(messages, str) else [dict(each) for each in messages]
        if shown != row.get("prompt", shown):
            raise fault(self.path, line, f"has another prompt than row {index} of the data set {row['dataset']!r}",
                        "give the configuration that the predictions were made with")  # fmt: skip
        return columns

    def _source(self, line: int, name: str) -> PromptSource:
        if self._sets is None:
            data, resolver = self.config.get("data") or {}, Resolver(self.known)
            given = {key: data[key] for key in ("validation", "test") if data.get(key) is not None}
            values = resolver.parameters(given, _Data, "data")
            self._sets = _Data(**Checker(resolver).parameters(values, _Data, "data")).sets
        if name not in self._sets:
            raise fault(self.path, line, f"is a prediction on the data set {name!r}, which the configuration lacks",
                        near_matches(name, self._sets))  # fmt: skip
        if name not in self._sources:
            source = self._sets[name].source
            try:
                source.load()
            except ConfigError as error:
                raise error.under(f"data.{name}") from None
            self._sources[name] = source
        return self._sources[name]


def check_recording(entries: Sequence[RewardEntry], recording: Recording) -> None:
    """Check that every reward finds what it asks for in every row that it applies to.

    Raises:
        ConfigError: Naming the line and the reward.
    """
    asked = {entry_name(entry): (entry, requested_arguments(entry.reward).required) for entry in entries}
    for episode, line in zip(recording.episodes, recording.lines, strict=True):
        for name, (entry, required) in asked.items():
            if not applies_to(entry, episode.prompt):
                continue
            for argument in required:
                reserved = argument in RESERVED_ARGUMENTS and argument not in entry.reward.columns()
                if not reserved and argument not in episode.prompt.columns:
                    fix = f"add it, or name another column; {near_matches(argument, episode.prompt.columns)}"
                    raise fault(recording.path, line, f"lacks {argument!r}, which reward {name!r} asks for", fix)
                if argument in UNRECORDED or (argument == "completion_ids" and not recording.has_ids):
                    fix = "add completion_ids to every row" if argument not in UNRECORDED else "leave that reward out"
                    raise fault(recording.path, line, f"holds no {argument}, which reward {name!r} asks for", fix)


def counted_in_characters(entries: Sequence[RewardEntry], recording: Recording) -> Iterator[str]:
    """Names of rewards that ask for lengths where it is not known how many steps rows have."""
    if not recording.has_lengths:
        for entry in entries:
            if "lengths" in requested_arguments(entry.reward).required:
                yield entry_name(entry)
