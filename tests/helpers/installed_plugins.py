"""Distributions that carry a plugin, written to a folder that is then on ``sys.path``, as pip would leave them."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from grpo_lightning.pluginmanager import Plugins, installed_entry_points

REWARD = '''
    from grpo_lightning import hookimpl
    from grpo_lightning.rewards.base import Reward

    class {cls}(Reward):
        """Scores {name}."""
        name = "{name}"

        def score(self, *, completions):
            return [1.0 for _ in completions]

    @hookimpl
    def grpo_register_reward():
        return {cls}
'''
"""Source of a plugin with one reward; fill in ``cls`` and ``name``."""


class Site:
    """A folder on ``sys.path`` to which distributions are added."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        monkeypatch.syspath_prepend(folder)

    def add(self, distribution: str, source: str, *, plugin: str | None = None, version: str = "1.0") -> str:
        """Install a distribution whose only module holds ``source``; returns the module's name."""
        module = distribution.lower().replace("-", "_")
        (self.folder / f"{module}.py").write_text(dedent(source))
        info = self.folder / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[grpo_lightning]\n{plugin or module} = {module}\n")
        self.monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    def add_reward(self, distribution: str, name: str, cls: str) -> str:
        """Install a distribution with one working reward."""
        return self.add(distribution, REWARD.format(name=name, cls=cls))

    def plugins(self) -> Plugins:
        """The built-ins and the plugins of this folder."""
        found = [(entry, owner) for entry, owner in installed_entry_points() if self.holds(owner.locate_file(""))]
        return Plugins(found)

    def holds(self, path: object) -> bool:
        """Whether a distribution lies in this folder, and not in the environment of the tests."""
        return Path(str(path)).resolve() == self.folder.resolve()
