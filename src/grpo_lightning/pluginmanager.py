"""Loading of plugins: sorted, one by one, so that a broken one is reported and does not stop the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

import pluggy

from grpo_lightning import hookspecs

GROUP = hookspecs.PROJECT


@dataclass(frozen=True)
class PluginFailure:
    """A plugin that did not load."""

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


class Plugins:
    """All plugins of one process: the built-ins, then those of installed distributions in order of name."""

    def __init__(self, entry_points: list[tuple[EntryPoint, Distribution]] | None = None) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.loaded: list[LoadedPlugin] = []
        self.failures: list[PluginFailure] = []
        self.register("builtins", import_module("grpo_lightning.builtins"), "grpo-lightning", "")
        for entry_point, distribution in installed_entry_points() if entry_points is None else entry_points:
            owner = f"{distribution.metadata['Name']} {distribution.version}"
            try:
                module = entry_point.load()
            except BaseException as error:  # whatever a stranger's module raises must not stop the others
                if isinstance(error, KeyboardInterrupt):
                    raise
                self.failures.append(PluginFailure(entry_point.name, owner, _cause(error)))
                continue
            self.register(entry_point.name, module, distribution.metadata["Name"], distribution.version)

    def register(self, name: str, module: Any, distribution: str, version: str) -> None:
        """Register one plugin; a fault in its hooks is recorded, and none of them stays registered."""
        owner = f"{distribution} {version}".strip()
        unknown = sorted(
            hook for hook in dir(module) if hook.startswith("grpo_") and self._is_unknown(module, hook)
        )
        try:
            if unknown:
                raise pluggy.PluginValidationError(module, f"unknown hook {unknown[0]!r}")
            self.manager.register(module, name=name)
        except (pluggy.PluginValidationError, ValueError) as error:
            if self.manager.is_registered(module):
                self.manager.unregister(module)
            self.failures.append(PluginFailure(name, owner, _cause(error)))
            return
        self.loaded.append(LoadedPlugin(name, distribution, version, module))

    def _is_unknown(self, module: Any, hook: str) -> bool:
        marked = getattr(getattr(module, hook), f"{hookspecs.PROJECT}_impl", None)
        return marked is not None and not hasattr(hookspecs, hook)

    def call_each(self, hook: str, **arguments: Any) -> list[tuple[LoadedPlugin, Any]]:
        """Call one hook plugin by plugin, built-ins first; a plugin whose hook raises is recorded as failed."""
        results = []
        for plugin in self.loaded:
            function = getattr(plugin.module, hook, None)
            if getattr(function, f"{hookspecs.PROJECT}_impl", None) is None or function is None:
                continue
            accepted = {name: arguments[name] for name in pluggy._hooks.varnames(function)[0] if name in arguments}
            try:
                results.append((plugin, function(**accepted)))
            except Exception as error:
                owner = f"{plugin.distribution} {plugin.version}".strip()
                self.failures.append(PluginFailure(plugin.name, owner, f"hook {hook} raised {_cause(error)}"))
        return results


def installed_entry_points() -> list[tuple[EntryPoint, Distribution]]:
    """Entry points of the group, by distribution and name, so that every rank and machine loads in one order."""
    found: dict[tuple[str, str], tuple[EntryPoint, Distribution]] = {}
    for distribution in distributions():
        for entry_point in distribution.entry_points:
            if entry_point.group == GROUP:
                # The first on the path wins, as it does for imports.
                found.setdefault((distribution.metadata["Name"].lower(), entry_point.name), (entry_point, distribution))
    return [found[key] for key in sorted(found)]


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


@cache
def plugins() -> Plugins:
    """The plugins of this process, loaded at the first call."""
    return Plugins()
