"""Tasks of reasoning-gym: their names, options and levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Literal

from grpo_lightning.errors import ConfigError, near_matches, require, require_range
from grpo_lightning_reasoning_gym.entry_json import to_json

RangeMode = Literal["inclusive", "upper_bound"]
Level = int | dict[str, int] | None
_OWN = {"seed": "seed", "size": "size"}


@dataclass(frozen=True)
class TaskSpec:
    """One task of a source, as it is set."""

    task: str
    weight: float = 1.0
    level: Level = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, entry: Any) -> TaskSpec:
        """The task that an entry of the setting ``tasks`` asks for.

        Raises:
            ConfigError: If it is no mapping, lacks ``task`` or has a key that is none.
        """
        require(isinstance(entry, Mapping), "", entry, "is no task", "write {task: chain_sum, weight: 1}")
        known = [each.name for each in fields(cls)]
        for key in entry:
            require(key in known, "", key, "is no setting of a task", near_matches(str(key), known))
        require("task" in entry, "task", None, "is missing", "name a task, such as chain_sum")
        return cls(**entry)

    def check(self) -> None:
        """Check what can be told without the package.

        Raises:
            ConfigError: Naming the setting.
        """
        require(isinstance(self.task, str) and bool(self.task), "task", self.task, "is no name", "set chain_sum, say")
        require_range("weight", self.weight, low=0, low_open=True, high_open=True)
        levels = self.level if isinstance(self.level, Mapping) else {"": self.level}
        for name, level in levels.items():
            whole = level is None or (isinstance(level, int) and not isinstance(level, bool) and level >= 0)
            require(whole, f"level.{name}" if name else "level", level, "is no level", "set a whole number from 0 on")
        require(isinstance(self.options, Mapping), "options", self.options, "is no mapping", "write {max_terms: 3}")
        for name in self.options:
            require(name not in _OWN, f"options.{name}", self.options[name], "is set for all tasks at once",
                    f"set {name} beside options")  # fmt: skip


def task_names() -> list[str]:
    """Every task there is, sorted. The package's own mixture of tasks (``composite``) is left out: ``tasks`` replaces it."""
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - {"composite"})


def level_count(task: str) -> int:
    """Levels of a task's curriculum; 0 where it has none."""
    from reasoning_gym.factory import CURRICULA

    curriculum = CURRICULA[task]() if task in CURRICULA else None
    return max((len(each.levels) for each in curriculum.attributes.values()), default=0) if curriculum else 0


def option_defaults(task: str) -> dict[str, Any]:
    """Options of a task with their defaults."""
    from reasoning_gym.factory import DATASETS

    config_class = DATASETS[task][1]
    names = [each.name for each in fields(config_class) if each.init and each.name not in _OWN]
    return {name: getattr(config_class(), name) for name in names}


def resolved_options(spec: TaskSpec, mode: RangeMode) -> dict[str, Any]:
    """Options of a task that are not left at their defaults: what its level sets, then what is set by hand.

    Raises:
        ConfigError: If there is no such task, level or option, or the options do not go together.
    """
    require(
        spec.task in task_names(),
        "task",
        spec.task,
        "is no task of reasoning-gym",
        near_matches(spec.task, task_names()),
    )
    known = option_defaults(spec.task)
    for name in spec.options:
        require(
            name in known,
            f"options.{name}",
            spec.options[name],
            f"is no option of {spec.task}",
            near_matches(name, known),
        )
    options = {} if spec.level is None else _level_options(spec, mode)
    options = options | dict(spec.options)
    try:
        to_json(options)
        dataset(spec.task, options, seed=0, size=1)
    except Exception as error:  # the checks of a task are asserts, and whatever its constructor raises
        setting, value = ("options", dict(spec.options)) if spec.level is None else ("level", spec.level)
        told = f"{type(error).__name__}: {error}"
        reason = f"gives options that {spec.task} refuses ({told})"
        raise ConfigError(setting, value, reason, "change the options that it names") from None
    return options


def dataset(task: str, options: Mapping[str, Any], *, seed: int, size: int) -> Any:
    """reasoning-gym's data set of a task; a text is taken for the member of an enumeration where the task asks for one.

    Raises:
        Exception: Whatever the task raises for options that do not go together.
    """
    from reasoning_gym.factory import create_dataset

    given = dict(options)
    for name, default in option_defaults(task).items():
        if isinstance(default, Enum) and name in given:
            given[name] = type(default)(given[name])
    return create_dataset(task, **given, seed=seed, size=size)


def _level_options(spec: TaskSpec, mode: RangeMode) -> dict[str, Any]:
    """Options that a level of the task's own curriculum sets."""
    from reasoning_gym.coaching.base_curriculum import (
        DefaultCurriculumContext,
        RangeAttributeMode,
    )
    from reasoning_gym.factory import CURRICULA

    levels = level_count(spec.task)
    require(levels > 0, "level", spec.level, f"is a level, but {spec.task} has none", "leave it out, and set options")
    curriculum = CURRICULA[spec.task]()
    if isinstance(spec.level, int):
        require(spec.level < levels, "level", spec.level, f"is no level of {spec.task}", f"set 0 to {levels - 1}")
        curriculum.set_global_level(spec.level)
    for name, level in spec.level.items() if isinstance(spec.level, Mapping) else ():
        known = curriculum.attributes
        require(
            name in known, f"level.{name}", level, f"is a level of nothing in {spec.task}", near_matches(name, known)
        )
        last = len(known[name].levels) - 1
        require(level <= last, f"level.{name}", level, f"is no level of it in {spec.task}", f"set 0 to {last}")
        curriculum.set_attr_level(name, level)
    try:
        config = curriculum.generate_configuration(context=DefaultCurriculumContext(RangeAttributeMode(mode)))
    except Exception as error:  # as above
        reason = f"gives options that {spec.task} refuses ({type(error).__name__}: {error})"
        raise ConfigError("level", spec.level, reason, "set another level, or options") from None
    found = {name: getattr(config, name) for name in option_defaults(spec.task)}
    return {name: value for name, value in found.items() if value != option_defaults(spec.task)[name]}
