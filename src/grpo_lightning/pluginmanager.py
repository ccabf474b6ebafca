"""Loading of plugins: sorted, one by one, so that a broken one is reported and does not stop the others."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

import pluggy

from grpo_lightning import hookspecs
from grpo_lightning._version import __version__

GROUP = hookspecs.PROJECT
BLOCKED = "GRPO_LIGHTNING_BLOCKED_PLUGINS"
"""Environment variable: names of plugins or distributions that are not loaded, separated by commas."""


@dataclass(frozen=True)
class PluginFailure:
    """A plugin that did not load, or not wholly."""

    plugin: str
    distribution: str
    cause: str

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} of {self.distribution} did not load: {self.cause}"


@dataclass(frozen=True)
class LoadedPlugin:
    """A plugin that loaded."""

    name: str
    distribution: str
    version: str
    module: Any

    @property
    def key(self) -> str:
        """What pluggy knows it by: two distributions may give their plugins one name."""
        return f"{self.distribution}:{self.name}"

    @property
    def owner(self) -> str:
        """Distribution and version, for people."""
        return f"{self.distribution} {self.version}".strip()


class Plugins:
    """All plugins of one process: the built-ins, then those of installed distributions in order of name."""

    def __init__(self, entry_points: list[tuple[EntryPoint, Distribution]] | None = None) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.loaded: list[LoadedPlugin] = []
        self.failures: list[PluginFailure] = []
        self.register("builtins", import_module("grpo_lightning.builtins"), "grpo-lightning", __version__)
        blocked = _blocked()
        for entry_point, distribution in installed_entry_points() if entry_points is None else entry_points:
            plugin = LoadedPlugin(entry_point.name, _name(distribution), distribution.version, None)
            if blocked & {normalised(plugin.name), normalised(plugin.distribution)}:
                self.fail(plugin, f"it is blocked by the environment variable {BLOCKED}")
                continue
            try:
                module = entry_point.load()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a stranger's module raises must not stop the others
                self.fail(plugin, cause_of(error))
                continue
            self.register(plugin.name, module, plugin.distribution, plugin.version)

    def register(self, name: str, module: Any, distribution: str, version: str) -> None:
        """Register one plugin; a fault in its hooks is recorded, and none of them stays registered."""
        plugin = LoadedPlugin(name, distribution, version, module)
        try:
            self.manager.register(module, name=plugin.key)
            self._check_hooks(module)
        except (pluggy.PluginValidationError, ValueError) as error:
            # pluggy 1.6 leaves a plugin half registered where its own validation fails.
            if self.manager.get_plugin(plugin.key) is not None:
                self.manager.unregister(name=plugin.key)
            self.fail(plugin, cause_of(error))
            return
        self.loaded.append(plugin)

    def _check_hooks(self, module: Any) -> None:
        callers = self.manager.get_hookcallers(module)
        if not callers:
            raise pluggy.PluginValidationError(module, "it implements no hook; decorate its functions with @hookimpl")
        for caller in callers:
            for implementation in caller.get_hookimpls():
                if implementation.plugin is not module:
                    continue
                if not caller.has_spec() and not implementation.optionalhook:
                    raise pluggy.PluginValidationError(module, f"unknown hook {caller.name!r}")
                if implementation.wrapper or implementation.hookwrapper:
                    raise pluggy.PluginValidationError(module, f"hook {caller.name!r} is a wrapper, which is never run")

    def fail(self, plugin: LoadedPlugin, cause: str) -> None:
        """Record a fault of a plugin, once."""
        failure = PluginFailure(plugin.name, plugin.owner, cause)
        if failure not in self.failures:
            self.failures.append(failure)

    def call_each(self, hook: str, **arguments: Any) -> list[tuple[LoadedPlugin, Any]]:
        """Call one hook plugin by plugin, built-ins first; a plugin whose hook raises is recorded as failed."""
        implementations = getattr(self.manager.hook, hook).get_hookimpls()
        results = []
        for plugin in self.loaded:
            for implementation in reversed(implementations):  # pluggy lists the last registered first
                if implementation.plugin_name != plugin.key:
                    continue
                accepted = {name: arguments[name] for name in implementation.argnames}
                try:
                    results.append((plugin, implementation.function(**accepted)))
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # see above
                    self.fail(plugin, f"hook {hook} raised {cause_of(error)}")
        return results


def installed_entry_points() -> list[tuple[EntryPoint, Distribution]]:
    """Entry points of the group, by distribution and name, so that every rank and machine loads in one order."""
    found: dict[tuple[str, str], tuple[EntryPoint, Distribution]] = {}
    for distribution in distributions():
        for entry_point in distribution.entry_points:
            if entry_point.group == GROUP:
                # The first on the path wins, as it does for imports.
                found.setdefault((normalised(_name(distribution)), entry_point.name), (entry_point, distribution))
    return [found[key] for key in sorted(found)]


def normalised(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def cause_of(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


def _name(distribution: Distribution) -> str:
    return distribution.metadata["Name"] or "a distribution without a name"


def _blocked() -> set[str]:
    return {normalised(name) for name in os.environ.get(BLOCKED, "").split(",") if name.strip()}


@cache
def plugins() -> Plugins:
    """The plugins of this process, loaded at the first call."""
    return Plugins()
