"""Classes that are built later, such as optimizers: found by class name among the subclasses of what is asked for."""

from __future__ import annotations

from typing import Any

from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.registry import import_path


def factory_class(name: Any, returns: tuple[type, ...], path: str, value: Any) -> str:
    """The full path of the class or function that ``name`` means.

    Args:
        name: Class name or import path.
        returns: What it must be a subclass of; a function is taken at its word.
        path: Where it was written, for the error.
        value: What was written, for the error.

    Raises:
        ConfigError: If there is none.
    """
    known = factory_classes(returns)
    if not isinstance(name, str):
        raise ConfigError(path, value, "names no class", f"add name: one of {', '.join(sorted(known))}")
    if "." not in name:
        if name not in known:
            raise ConfigError(path, name, f"is no {returns[0].__name__}", near_matches(name, known))
        return f"{known[name].__module__}.{known[name].__qualname__}"
    try:
        found = import_path(name)
    except ImportError as error:
        reason = f"cannot be imported ({error})"
        raise ConfigError(path, name, reason, "check the path and what is installed") from error
    if isinstance(found, type) and not issubclass(found, returns):
        raise ConfigError(path, name, f"is no {returns[0].__name__}", near_matches(name.rpartition(".")[2], known))
    return name


def factory_classes(returns: tuple[type, ...]) -> dict[str, type]:
    """Every public class that is one of ``returns``, by name; of two that share one, the one asked for itself."""
    found: dict[str, type] = {}
    for base in returns:
        queue: list[type] = list(base.__subclasses__())
        while queue:
            each = queue.pop(0)
            queue.extend(each.__subclasses__())
            if not each.__name__.startswith("_"):
                found.setdefault(each.__name__, each)
    for base in returns:
        if base.__name__ in found:
            found[base.__name__] = base
    return found
