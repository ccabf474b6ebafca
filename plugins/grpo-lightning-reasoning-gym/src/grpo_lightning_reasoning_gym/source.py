"""Prompts from the tasks of reasoning-gym."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import ConfigError, DataError, near_matches, require
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning_reasoning_gym.candidates import candidates
from grpo_lightning_reasoning_gym.entry_json import to_json
from grpo_lightning_reasoning_gym.split import HELD_OUT_SHARE, Split, in_split
from grpo_lightning_reasoning_gym.tasks import Level, RangeMode, TaskSpec, resolved_options

DEFAULT_SIZE = 500
_SPLITS = ("train", "held_out", "any")
_log = logging.getLogger(__name__)


@dataclass
class _Stream:
    """Questions of one task on their way into rows."""

    setting: str
    spec: TaskSpec
    options: dict[str, Any]
    entries: Iterator[dict[str, Any]]
    taken: int = 0


class ReasoningGymPrompts(PromptSource):
    """Questions of one or several tasks of reasoning-gym, all different, as a function of the arguments alone.

    Each row has the columns ``prompt``, ``answer`` (the known answer, or ``None`` where the task has none), ``task``,
    ``level`` and ``entry``: JSON of all that the task's verifier reads, for the reward ``reasoning_gym``. About a fifth
    of all questions are held out. A hash of the question alone decides which, so training and held-out data share none,
    whatever their tasks, levels, seeds and sizes. Fewer rows are a beginning of more of them.

    Args:
        task: Name of a task, such as ``chain_sum``.
        size: Rows; by default 500, or as many as were found where there are fewer.
        seed: Seed of the questions. Two seeds give two independent draws of them.
        split: ``train``, ``held_out``, or ``any`` for questions of both.
        level: Level of difficulty by the task's own curriculum: one number for all of its attributes, or one by the name
            of an attribute. By default the task's own options.
        options: Options of the task, such as ``{max_terms: 3}``; they go before what the level sets.
        tasks: Several tasks in place of one: a list of ``{task, weight, level, options}``. Each has its share of the
            rows, ``weight / sum of weights``, up to rounding, in every beginning of them.
        range_mode: What a level means where a range of values is set: ``inclusive`` all up to the level's, ``upper_bound``
            the level's only.
        chat: Ask in a chat message of the user; else as plain text.
        system: Message of the system before it, which makes it chat: a text, or the name of one of reasoning-gym's own
            (``default``, ``simple``, ``direct``, ``chain_of_draft``, ``DeepSeekZero``).
        template: Text of a prompt with ``{question}`` in it: where to say how answers are to be written.

    Example:
        >>> source = ReasoningGymPrompts(task="spell_backward", size=3)
        >>> source.load()
        >>> all(row["answer"][::-1] in row["prompt"] for row in (source[0], source[1], source[2]))
        True
    """

    name = "reasoning_gym"
    example: ClassVar[Mapping[str, Any]] = {"task": "chain_sum", "size": 60}

    def __init__(
        self,
        *,
        task: str | None = None,
        size: int | None = None,
        seed: int = 0,
        split: Split = "train",
        level: Level = None,
        options: dict[str, Any] | None = None,
        tasks: list[dict[str, Any]] | None = None,
        range_mode: RangeMode = "inclusive",
        chat: bool = False,
        system: str | None = None,
        template: str = "{question}",
    ) -> None:
        whole = size is None or (isinstance(size, int) and size >= 1)
        require(whole, "size", size, "is no number of rows", "set 1 or more")
        require(split in _SPLITS, "split", split, "is no split", "set train, held_out or any")
        require(range_mode in ("inclusive", "upper_bound"), "range_mode", range_mode, "is no mode",
                "set inclusive or upper_bound")  # fmt: skip
        require("{question}" in template, "template", template, "does not ask anything", "put {question} in it")
        self.specs = _specs(task, level, options, tasks)
        self.size, self.seed, self.range_mode = size, seed, range_mode
        self.split: Split = split
        self.chat, self.system, self.template = chat or system is not None, system, template
        self.repeated = 0
        """Questions that came up again and were left out."""
        self._rows: list[dict[str, Any]] = []

    @override
    def load(self) -> None:
        """Make up the questions.

        Raises:
            ConfigError: If there is no such task, option or level, with near matches.
            DataError: If there are fewer questions than ``size``, or a task cannot make any up.
        """
        system = None if self.system is None else _system_text(self.system)
        self.repeated = 0
        with ExitStack() as opened:
            streams = []
            for setting, spec in self.specs.items():
                try:
                    options = resolved_options(spec, self.range_mode)
                except ConfigError as error:
                    raise (error.under(setting) if setting else error) from None
                entries = opened.enter_context(closing(candidates(spec.task, options, self.seed)))  # type: ignore[type-var]
                streams.append(_Stream(setting, spec, options, entries))
            self._rows = self._drawn(streams, system)
        _log.info("%d questions of %s; %d came up again and were left out", len(self._rows),
                  ", ".join(spec.task for spec in self.specs.values()), self.repeated)  # fmt: skip

    def _drawn(self, streams: Sequence[_Stream], system: str | None) -> list[dict[str, Any]]:
        """Rows in order; at each, the task that is furthest behind its share is asked."""
        wanted = DEFAULT_SIZE if self.size is None else self.size
        total = sum(stream.spec.weight for stream in streams)
        rows: list[dict[str, Any]] = []
        seen: set[str] = set()
        while len(rows) < wanted:
            stream = max(streams, key=lambda each: each.spec.weight / total * (len(rows) + 1) - each.taken)
            entry = self._next(stream, seen)
            if entry is None:
                break
            stream.taken += 1
            rows.append(self._row(stream, entry, system))
        if not rows or (self.size is not None and len(rows) < wanted):
            reason = f"is more than the {stream.taken} different questions that {stream.spec.task} gave"
            where = f"size ({stream.setting})" if stream.setting else "size"
            raise DataError(
                where, wanted, f"{reason} for split {self.split!r}", "lower it, or make the task's space larger"
            )
        return rows

    def _next(self, stream: _Stream, seen: set[str]) -> dict[str, Any] | None:
        """The next new question of the split; ``None`` if none came up in many tries."""
        share = {"train": 1 - HELD_OUT_SHARE, "held_out": HELD_OUT_SHARE, "any": 1.0}[self.split]
        for _ in range(100 + round(10 * stream.taken / share)):
            try:
                entry = next(stream.entries)
            except DataError as error:
                raise (error.under(stream.setting) if stream.setting else error) from None
            question = entry["question"]
            if not in_split(question, self.split):
                continue
            if question not in seen:
                seen.add(question)
                return entry
            self.repeated += 1
        return None

    def _row(self, stream: _Stream, entry: dict[str, Any], system: str | None) -> dict[str, Any]:
        text, spec = self.template.replace("{question}", entry["question"]), stream.spec
        messages = [{"role": "system", "content": system}] if system else []
        kept = {"task": spec.task, "options": stream.options, **entry}
        return {
            "prompt": [*messages, {"role": "user", "content": text}] if self.chat else text,
            "answer": entry["answer"],
            "task": spec.task,
            "level": spec.level if isinstance(spec.level, int) else None,
            "entry": to_json(kept),
        }

    @override
    def __len__(self) -> int:
        return len(self._loaded())

    @override
    def __getitem__(self, index: int) -> dict[str, Any]:
        return copy.deepcopy(self._loaded()[index])

    @property
    @override
    def columns(self) -> list[str]:
        return ["prompt", "answer", "task", "level", "entry"]

    def _loaded(self) -> list[dict[str, Any]]:
        if not self._rows:
            raise RuntimeError("the prompts are not loaded: call load() first")
        return self._rows


def _specs(
    task: str | None, level: Level, options: dict[str, Any] | None, tasks: list[dict[str, Any]] | None
) -> dict[str, TaskSpec]:
    """Tasks by the setting that names them: empty for the source's own."""
    if tasks is None:
        require(task is not None, "task", task, "is missing", "name a task, such as chain_sum, or give a list tasks")
        spec = TaskSpec(str(task), level=level, options=options or {})
        spec.check()
        return {"": spec}
    for setting, value in {"task": task, "level": level, "options": options}.items():
        require(value is None, setting, value, "is set beside tasks", "set it in an entry of tasks")
    require(
        isinstance(tasks, list | tuple) and bool(tasks), "tasks", tasks, "is no list of tasks", "write [{task: gcd}]"
    )
    specs = {}
    for index, entry in enumerate(tasks):
        setting = f"tasks[{index}]"
        try:
            specs[setting] = TaskSpec.parse(entry)
            specs[setting].check()
        except ConfigError as error:
            raise error.under(setting) from None
    return specs


def _system_text(system: str) -> str:
    """A text as it is; one of the package's own by its name."""
    from reasoning_gym.utils import SYSTEM_PROMPTS

    named = " " not in system and "\n" not in system
    known = system in SYSTEM_PROMPTS
    require(
        known or not named,
        "system",
        system,
        "is no system prompt of reasoning-gym",
        near_matches(system, SYSTEM_PROMPTS),
    )
    return str(SYSTEM_PROMPTS[system]) if known else system
