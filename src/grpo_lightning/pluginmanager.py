"""Loading of plugins: sorted, one by one, so that a broken one is reported and does not stop the others."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

import pluggy

from grpo_lightning import hookspecs
from grpo_lightning._version import __version__
from grpo_lightning.errors import near_matches
from grpo_lightning.plugin_switches import ALLOWED, BLOCKED, Switches, normalised

GROUP = hookspecs.PROJECT


@dataclass(frozen=True)
class PluginFailure:
    """A plugin that did not load, or not wholly."""

    plugin: str
    distribution: str
    cause: str
    wanted: bool = False
    """Whether it was left out because somebody asked for that."""

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

    def __init__(
        self, entry_points: list[tuple[EntryPoint, Distribution]] | None = None, switches: Switches | None = None
    ) -> None:
        self.switches = Switches.of_environment() if switches is None else switches
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.loaded: list[LoadedPlugin] = []
        self.failures: list[PluginFailure] = []
        self.register("builtins", import_module("grpo_lightning.builtins"), "grpo-lightning", __version__)
        found = installed_entry_points() if entry_points is None else entry_points
        for entry_point, distribution in found:
            self._load(entry_point, LoadedPlugin(entry_point.name, _name(distribution), distribution.version, None))
        known = {name for entry, owner in found for name in (normalised(entry.name), normalised(_name(owner)))}
        for variable, name in self.switches.unknown(known):
            cause = f"no plugin of that name is installed; {near_matches(name, known)}"
            self.failures.append(PluginFailure(name, f"the environment variable {variable}", cause))

    def _load(self, entry_point: EntryPoint, plugin: LoadedPlugin) -> None:
        names = {normalised(plugin.name), normalised(plugin.distribution)}
        if self.switches.blocked & names:
            self.fail(plugin, f"it is blocked by the environment variable {BLOCKED}", wanted=True)
            return
        if self.switches.allowed is not None and not self.switches.allowed & names:
            self.fail(plugin, f"the environment variable {ALLOWED} does not name it", wanted=True)
            return
        start = time.perf_counter()
        try:
            module = entry_point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a stranger's module raises must not stop the others
            self.fail(plugin, cause_of(error))
            return
        self.trace(f"imported {entry_point.value} of {plugin.owner} in {time.perf_counter() - start:.3f} s")
        self.register(plugin.name, module, plugin.distribution, plugin.version)

    def register(self, name: str, module: Any, distribution: str, version: str) -> None:
        """Register one plugin; a fault in its hooks is recorded, and none of them stays registered."""
        plugin = LoadedPlugin(name, distribution, version, module)
        asked = getattr(module, "GRPO_LIGHTNING_API", hookspecs.API)
        if asked != hookspecs.API:
            newer = isinstance(asked, int) and asked > hookspecs.API
            fix = "update grpo-lightning" if newer else f"update {distribution}"
            self.fail(plugin, f"it asks for plugin API {asked!r}, and this version has {hookspecs.API}; {fix}")
            return
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
        hooks = sorted(caller.name for caller in self.manager.get_hookcallers(module) or ())
        self.trace(f"registered {plugin.name!r} of {plugin.owner}: {', '.join(hooks)}")

    def trace(self, line: str) -> None:
        """Tell what is being done, where that was asked for."""
        if self.switches.trace:
            sys.stderr.write(f"plugins: {line}\n")

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

    def fail(self, plugin: LoadedPlugin, cause: str, *, wanted: bool = False) -> None:
        """Record a fault of a plugin, once."""
        failure = PluginFailure(plugin.name, plugin.owner, cause, wanted)
        if failure not in self.failures:
            self.failures.append(failure)
            self.trace(str(failure))

    def faults(self) -> list[PluginFailure]:
        """Plugins that did not load although nobody asked for that."""
        return [failure for failure in self.failures if not failure.wanted]

    def versions(self) -> dict[str, str]:
        """Version of every distribution that a plugin was loaded from, this package's first."""
        return {plugin.distribution: plugin.version for plugin in self.loaded}

    def call_each(self, hook: str, **arguments: Any) -> list[tuple[LoadedPlugin, Any]]:
        """Call one hook plugin by plugin, built-ins first; a plugin whose hook raises is recorded as failed."""
        implementations = getattr(self.manager.hook, hook).get_hookimpls()
        results = []
        for plugin in self.loaded:
            for implementation in reversed(implementations):  # pluggy lists the last registered first
                if implementation.plugin_name != plugin.key:
                    continue
                accepted = {name: arguments[name] for name in implementation.argnames}
                self.trace(f"called {hook} of {plugin.owner}")
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


def cause_of(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


def _name(distribution: Distribution) -> str:
    return distribution.metadata["Name"] or "a distribution without a name"


@cache
def plugins() -> Plugins:
    """The plugins of this process, loaded at the first call."""
    return Plugins()
