"""Names to classes: the one place where a component is found."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from grpo_lightning.errors import ConfigError, PluginError, near_matches
from grpo_lightning.kinds import KINDS
from grpo_lightning.pluginmanager import PluginFailure, Plugins, plugins


@dataclass(frozen=True)
class LazyComponent:
    """A component whose module is imported only when it is used."""

    name: str
    path: str
    """Full import path of the class."""
    summary: str
    """First line of its docstring."""


@dataclass(frozen=True)
class Entry:
    """One registered component."""

    kind: str
    name: str
    path: str
    """Full import path of the class."""
    summary: str
    distribution: str
    version: str

    @property
    def class_name(self) -> str:
        """Name of the class without its module."""
        return self.path.rpartition(".")[2]

    def load(self) -> type:
        """The class, imported now."""
        return import_path(self.path)  # type: ignore[no-any-return]


class Registry:
    """Every component that the built-ins and the loaded plugins register.

    Raises:
        PluginError: Never while it is built: a plugin that claims a taken name, or returns something that is no
            component, is recorded in :attr:`failures`, naming both sides; what it had registered before stays.
    """

    def __init__(self, source: Plugins) -> None:
        self.source = source
        self.entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        for kind in KINDS.values():
            for plugin, result in source.call_each(kind.hook):
                for item in result if isinstance(result, list | tuple) else [result]:
                    try:
                        self._add(kind.name, item, plugin.distribution, plugin.version)
                    except PluginError as error:
                        owner = f"{plugin.distribution} {plugin.version}".strip()
                        source.failures.append(PluginFailure(plugin.name, owner, str(error)))

    @property
    def failures(self) -> list[PluginFailure]:
        """Plugins that did not load, or not wholly."""
        return self.source.failures

    def _add(self, kind: str, item: Any, distribution: str, version: str) -> None:
        entry = _entry(kind, item, distribution, version)
        for taken in self.entries[kind].values():
            if taken.name == entry.name or taken.class_name == entry.class_name:
                raise PluginError(
                    f"{kind} {entry.name!r} ({entry.path} of {distribution}) has the name of {taken.name!r} "
                    f"({taken.path} of {taken.distribution}); one of them must be renamed"
                )
        self.entries[kind][entry.name] = entry

    def __iter__(self) -> Iterator[Entry]:
        for kind in self.entries.values():
            yield from (kind[name] for name in sorted(kind))

    def find(self, kind: str, name: str) -> Entry | None:
        """The entry of a registered name, class name or full path; ``None`` if it is registered under none of them."""
        for entry in self.entries[kind].values():
            if name in (entry.name, entry.class_name, entry.path):
                return entry
        return None

    def resolve(self, kind: str, name: str, setting: str = "") -> Any:
        """The class that ``name`` means: a registered name, a class name, or an import path.

        Args:
            kind: Kind of component.
            name: What the user wrote.
            setting: Where it was written, for the error.

        Raises:
            ConfigError: If nothing of that name exists, with near matches and the plugins that failed to load.
        """
        setting = setting or kind
        entry = self.find(kind, name)
        if entry is not None:
            return entry.load()
        if "." in name:
            try:
                found = import_path(name)
            except ImportError as error:
                raise ConfigError(
                    setting, name, f"cannot be imported ({error})", "check the path and what is installed"
                ) from error
            if inspect.isclass(found) and issubclass(found, KINDS[kind].base_class()):
                return found
            if kind == "reward" and callable(found):
                return found
            raise ConfigError(setting, name, f"is no {kind}", f"give a subclass of {KINDS[kind].base_class().__name__}")
        broken = "".join(f" ({failure})" for failure in self.failures)
        raise ConfigError(setting, name, f"is no known {kind}{broken}", near_matches(name, self.entries[kind]))


def _entry(kind: str, item: Any, distribution: str, version: str) -> Entry:
    if isinstance(item, LazyComponent):
        return Entry(kind, item.name, item.path, item.summary, distribution, version)
    if not (inspect.isclass(item) and issubclass(item, KINDS[kind].base_class())):
        raise PluginError(f"hook {KINDS[kind].hook} returned {item!r}, which is no {KINDS[kind].base}")
    name = item.__dict__.get("name")
    if not isinstance(name, str) or not name.isidentifier():
        raise PluginError(f"{item.__module__}.{item.__qualname__} has no name (a snake_case string on the class)")
    summary = (inspect.getdoc(item) or "").partition("\n")[0]
    return Entry(kind, name, f"{item.__module__}.{item.__qualname__}", summary, distribution, version)


def import_path(path: str) -> Any:
    """The object at a full import path.

    Raises:
        ImportError: If there is none.
    """
    module, _, attribute = path.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except AttributeError:
        raise ImportError(f"module {module!r} has no {attribute!r}") from None
    except ValueError as error:
        raise ImportError(str(error)) from None


@cache
def registry() -> Registry:
    """The registry of this process, filled at the first call."""
    return Registry(plugins())


def create(kind: str, name: str, **arguments: Any) -> Any:
    """Build a component as the YAML would.

    Args:
        kind: Kind of component, such as ``"advantage"``.
        name: Registered name, class name or import path.
        **arguments: Its own arguments.

    Raises:
        ConfigError: If kind, name, an argument or its value is wrong.

    Example:
        >>> import grpo_lightning
        >>> grpo_lightning.create("advantage", "leave_one_out").name
        'leave_one_out'
    """
    if kind not in KINDS:
        raise ConfigError("kind", kind, "is no kind of component", near_matches(kind, KINDS))
    found = registry().resolve(kind, name)
    if kind == "reward" and not inspect.isclass(found):
        arguments = {"function": found, **arguments}
        found = registry().resolve("reward", "function")
    check_arguments(found, arguments, kind)
    try:
        return found(**arguments)
    except ConfigError as error:
        raise error.under(kind) from None


def check_arguments(component: type, arguments: dict[str, Any], setting: str) -> None:
    """Check that a component's constructor takes every one of ``arguments``, and gets every one it must have.

    Raises:
        ConfigError: Naming the argument, with near matches.
    """
    parameters = constructor_parameters(component)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for argument, value in arguments.items():
        if argument not in parameters:
            name = getattr(component, "name", component.__name__)
            takes = near_matches(argument, parameters) if parameters else "it takes none"
            raise ConfigError(f"{setting}.{argument}", value, f"is no option of {name!r}", takes)
    for argument, parameter in parameters.items():
        if parameter.default is parameter.empty and argument not in arguments:
            name = getattr(component, "name", component.__name__)
            raise ConfigError(f"{setting}.{argument}", None, f"is missing: {name!r} needs it", "set it")


def constructor_parameters(component: type) -> dict[str, inspect.Parameter]:
    """Parameters of a component's constructor, without ``self``; none where it has no constructor of its own."""
    if component.__init__ is object.__init__:  # type: ignore[misc]
        return {}
    parameters = dict(inspect.signature(component).parameters)
    return parameters
