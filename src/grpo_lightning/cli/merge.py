"""One mapping of many: files laid over each other from left to right, then values from the command line."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from grpo_lightning.cli.arguments import Setting
from grpo_lightning.errors import ConfigError

NAMING = ("name", "class_path")
"""Keys that say which component is meant."""
NO_COMPONENT = ("wandb",)
"""Settings that hold no component, so that ``name`` means nothing special below them."""


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """``base`` with ``over`` laid on it: mappings are merged, everything else is replaced.

    A mapping that names another component, or other data, replaces the one below it, whose options it cannot know. A mapping
    of options over a bare name belongs to the component of that name.
    """
    merged = dict(copy.deepcopy(base))
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, str) and not _names(value):
            below = {"name": below}
        replaces = key not in NO_COMPONENT and (
            _names_another(below, value) or _is_other_data((*path, key), below, value)
        )
        if isinstance(value, Mapping) and isinstance(below, Mapping) and not replaces:
            merged[key] = deep_merge(below, value, (*path, key))
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _names(value: Any) -> dict[str, Any]:
    return {key: value[key] for key in NAMING if key in value} if isinstance(value, Mapping) else {}


def _names_another(below: Any, over: Any) -> bool:
    return bool(_names(below) and _names(over) and _names(below) != _names(over))


def _is_other_data(path: tuple[str, ...], below: Any, over: Any) -> bool:
    """Whether ``over`` says where data come from by a file or a hub name, or lists several sources over a single one."""
    if path[:1] != ("data",) or not isinstance(below, Mapping) or not isinstance(over, Mapping):
        return False
    if _names(below) and ("path" in over or "dataset" in over):
        return True
    several = [bool(each) and all(isinstance(value, Mapping) for value in each.values()) for each in (below, over)]
    return path == ("data", "train") and several == [False, True]


def apply_setting(config: dict[str, Any], setting: Setting) -> None:
    """Set one value of ``config`` in place; a number in the path is an index into a list.

    Raises:
        ConfigError: If the path leads through something that holds no settings.
    """
    holder: Any = config
    for depth, key in enumerate(setting.path[:-1]):
        at = _index(holder, key, setting, depth)
        held = holder[at] if isinstance(holder, list) else holder.get(at)
        if not isinstance(held, dict | list):
            held = holder[at] = _opened(held, setting, depth)
        holder = held
    last = _index(holder, setting.path[-1], setting, len(setting.path) - 1)
    if setting.append:
        _append(holder, last, setting)
    elif last in NAMING and "class_path" in holder:
        # A component written in full is replaced as a whole; its options are another's.
        holder.clear()
        holder[last] = setting.value
    else:
        holder[last] = setting.value


def _index(holder: Any, key: str, setting: Setting, depth: int) -> Any:
    if isinstance(holder, dict):
        return key
    name = ".".join(setting.path[:depth])
    if not key.isdigit():
        raise ConfigError(".".join(setting.path), setting.value, f"names no item of the list {name}",
                          f"write --{name}.0.{key}, or --{name}+=VALUE to add one")  # fmt: skip
    if int(key) >= len(holder):
        raise ConfigError(".".join(setting.path), setting.value, f"is beyond the {len(holder)} items of {name}",
                          f"write --{name}+=VALUE to add one")  # fmt: skip
    return int(key)


def _opened(held: Any, setting: Setting, depth: int) -> dict[str, Any]:
    if held is None or held is True:
        return {}
    if isinstance(held, str):
        return {"name": held}
    raise ConfigError(".".join(setting.path), setting.value,
                      f"belongs to {'.'.join(setting.path[: depth + 1])}, which is {held!r}",
                      "give that a mapping first")  # fmt: skip


def _append(holder: Any, last: Any, setting: Setting) -> None:
    held = holder[last] if isinstance(holder, list) else holder.get(last)
    if held is not None and not isinstance(held, list):
        raise ConfigError(".".join(setting.path), setting.value, f"is added to {held!r}, which is no list",
                          "leave out the plus")  # fmt: skip
    added = setting.value if isinstance(setting.value, list) else [setting.value]
    holder[last] = [*(held or []), *added]
