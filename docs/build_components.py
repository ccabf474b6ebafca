"""Writes docs/components.md from the registry: python docs/build_components.py"""

from __future__ import annotations

import inspect
from pathlib import Path

from grpo_lightning.kinds import KINDS, Kind
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Entry, Registry, constructor_parameters

PAGE = Path(__file__).with_name("components.md")
HEAD = """# Components

Every part that comes with the package, by kind. `python -m grpo_lightning plugins list` shows these and what installed
plugins add; `python -m grpo_lightning plugins show NAME` shows one with its options. An option without a default must
be set. A part is named in YAML by its name, by its class name or by its import path:

```yaml
advantage: leave_one_out
loss: {name: clipped, epsilon_high: 0.28}
```

and in Python by `grpo_lightning.create("loss", "clipped", epsilon_high=0.28)`. How to add one from outside:
[hooks.md](hooks.md). This page is written by `python docs/build_components.py`.
"""


def page() -> str:
    """The text of the page."""
    registry = Registry(Plugins([]))
    sections = [section(kind, [entry for entry in registry if entry.kind == kind.name]) for kind in KINDS.values()]
    return "\n".join([HEAD, *sections])


def section(kind: Kind, entries: list[Entry]) -> str:
    """The table of one kind."""
    base = "lightning.pytorch.Callback" if kind.name == "callback" else f"grpo_lightning.{kind.folder}.base.{kind.base}"
    lines = [
        f"## {kind.folder}",
        "",
        f"Kind `{kind.name}`: {kind.decides}. Base class `{base}`.",
        "",
        "| name | what it is | options |",
        "|---|---|---|",
        *(f"| `{entry.name}` | {cell(entry.summary)} | {options(entry)} |" for entry in entries),
        "",
    ]
    return "\n".join(lines)


def options(entry: Entry) -> str:
    """Options of a component with their defaults."""
    shown = []
    for name, parameter in constructor_parameters(entry.load()).items():
        default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
        shown.append(f"`{name}{cell(default)}`")
    return ", ".join(shown)


def cell(text: str) -> str:
    """Text that may stand in a cell of a table."""
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
