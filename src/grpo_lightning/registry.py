"""Names to classes: the one place where a component is found."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from grpo_lightning.errors import ConfigError, PluginError, near_matches
from grpo_lightning.kinds import KINDS, Kind
from grpo_lightning.plugin_switches import STRICT
from grpo_lightning.pluginmanager import LoadedPlugin, PluginFailure, Plugins, cause_of, plugins


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
                        self._add(_entry(kind, item, plugin))
                    except PluginError as error:
                        source.fail(plugin, str(error))

    @property
    def failures(self) -> list[PluginFailure]:
        """Plugins that did not load, or not wholly."""
        return self.source.failures

    def digest(self) -> str:
        """A hash of every component's name, place and version: equal in two processes that loaded the same plugins."""
        lines = [f"{each.kind} {each.name} {each.path} {each.distribution} {each.version}" for each in self]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _add(self, entry: Entry) -> None:
        for taken in self.entries[entry.kind].values():
            if {taken.name, taken.class_name} & {entry.name, entry.class_name}:
                raise PluginError(
                    f"{entry.kind} {entry.name!r} ({entry.path} of {entry.distribution}) has the name of "
                    f"{taken.name!r} ({taken.path} of {taken.distribution}); one of them must be renamed"
                )
        self.entries[entry.kind][entry.name] = entry

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
            return self._load(entry, setting)
        if "." in name:
            return self._import(kind, name, setting)
        broken = "".join(f" ({failure})" for failure in self.failures)
        fix = near_matches(name, self.entries[kind])
        for other in KINDS:
            if other != kind and self.find(other, name) is not None:
                fix = f"it is the name of a component of kind {other!r}; {fix}"
        raise ConfigError(setting, name, f"is no known {kind}{broken}", fix)

    def _load(self, entry: Entry, setting: str) -> Any:
        try:
            found = entry.load()
        except Exception as error:
            reason = f"of {entry.distribution} cannot be imported ({cause_of(error)})"
            raise ConfigError(setting, entry.name, reason, "mend or update that distribution") from error
        if not _is_component(entry.kind, found):
            reason = f"of {entry.distribution} leads to {entry.path}, which is no {KINDS[entry.kind].base}"
            raise ConfigError(setting, entry.name, reason, "mend or update that distribution")
        return found

    def _import(self, kind: str, name: str, setting: str) -> Any:
        try:
            found = import_path(name)
        except Exception as error:  # a module may raise anything while it is imported
            reason = f"cannot be imported ({cause_of(error)})"
            raise ConfigError(setting, name, reason, "check the path and what is installed") from error
        if _is_component(kind, found) or (kind == "reward" and callable(found) and not inspect.isclass(found)):
            return found
        fix = f"give a subclass of {KINDS[kind].base}" + (" or a function" if kind == "reward" else "")
        raise ConfigError(setting, name, f"is no {kind}", fix)


def _is_component(kind: str, item: Any) -> bool:
    return inspect.isclass(item) and issubclass(item, KINDS[kind].base_class())


def _entry(kind: Kind, item: Any, plugin: LoadedPlugin) -> Entry:
    if isinstance(item, LazyComponent):
        name, path, summary = item.name, item.path, item.summary
    elif _is_component(kind.name, item):
        # Neither is inherited: a subclass of a component is another component, and says so itself.
        name, summary = item.__dict__.get("name"), inspect.cleandoc(item.__doc__ or "").partition("\n")[0]
        path = f"{item.__module__}.{item.__qualname__}"
        if "." in item.__qualname__:
            raise PluginError(f"hook {kind.hook} returned {path}, which is not at the top level of its module")
        if inspect.isabstract(item):
            missing = ", ".join(sorted(item.__abstractmethods__))
            raise PluginError(f"hook {kind.hook} returned {path}, which does not define {missing}")
    else:
        raise PluginError(f"hook {kind.hook} returned {item!r}, which is no {kind.base}")
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise PluginError(f"hook {kind.hook} returned {path}, whose name is {name!r}; a name is in snake_case")
    return Entry(kind.name, name, path, summary, plugin.distribution, plugin.version)


def import_path(path: str) -> Any:
    """The object at a full import path.

    Raises:
        ImportError: If there is none.
    """
    name, _, attribute = path.rpartition(".")
    if not all(part.isidentifier() for part in path.split(".")):
        raise ImportError(f"{path!r} is no import path")
    module = import_module(name)
    if not hasattr(module, attribute):
        raise ImportError(f"module {name!r} has no {attribute!r}")
    return getattr(module, attribute)


@cache
def registry() -> Registry:
    """The registry of this process, filled at the first call.

    Raises:
        PluginError: If a plugin did not load, or not wholly, and the environment asks for strictness.
    """
    known = Registry(plugins())
    faults = known.source.faults()
    if known.source.switches.strict and faults:
        raise PluginError("; ".join(map(str, faults)) + f" ({STRICT} is set)")
    return known


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
    return _instance(kind, name, arguments, kind)


def build(kind: str, value: Any, setting: str) -> Any:
    """A component from a component, or from the name of one.

    Args:
        kind: Kind of component.
        value: A component, which is returned, or a registered name, class name or import path.
        setting: Where it was given, for the error.

    Raises:
        ConfigError: If the name leads nowhere, or the component has options that must be set.
    """
    return _instance(kind, value, {}, setting) if isinstance(value, str) else value


def _instance(kind: str, name: str, arguments: dict[str, Any], setting: str) -> Any:
    found = registry().resolve(kind, name, setting)
    if not inspect.isclass(found):  # a function, which only rewards may be
        arguments = {"function": found, **arguments}
        found = registry().resolve("reward", "function", setting)
    check_arguments(found, arguments, setting)
    try:
        return found(**arguments)
    except ConfigError as error:
        raise error.under(setting) from None


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
    return dict(inspect.signature(component).parameters)
