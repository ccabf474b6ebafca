"""The public surface is what tests/meta/public_api.txt says. Write it again: python tests/meta/test_public_api.py"""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

SNAPSHOT = Path(__file__).with_name("public_api.txt")
COMMAND = "python tests/meta/test_public_api.py"
ROOT = "grpo_lightning"
PROTOCOLS = {"__call__", "__len__", "__getitem__"}


def public_modules() -> list[str]:
    """Names of the modules that plugins may import, below the package; the root is empty."""
    from grpo_lightning.kinds import KINDS

    functional = import_module(f"{ROOT}.functional")
    inside = [f"functional.{module.name}" for module in pkgutil.iter_modules(functional.__path__)]
    bases = [f"{kind.folder}.base" for kind in KINDS.values()]
    return [
        "",
        "types",
        "errors",
        "settings",
        "reports",
        "steps",
        "formula",
        "compat",
        *sorted(bases),
        "rewards.entry",
        "rewards.extraction",
        "policies.causal_lm",
        "testing.check",
        "testing.catalogue",
        "testing.suites",
        "testing.verdict",
        *sorted(inside),
    ]


def surface() -> str:
    """Every public name with its signature: a paragraph a module."""
    paragraphs = []
    for name in public_modules():
        module = import_module(f"{ROOT}.{name}".rstrip("."))
        lines = [module.__name__]
        for public in names(module):
            # Of the classes that the root shows only the constructor is for users: Lightning calls the rest.
            lines += describe(public, getattr(module, public), members=module.__name__ != ROOT)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def names(module: ModuleType) -> list[str]:
    """What a module defines, or what its ``__all__`` says."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return sorted(name for name in own if not name.startswith("_"))


def describe(name: str, value: Any, *, members: bool) -> list[str]:
    """One line for a value; for a class its constructor and, if asked for, its members too."""
    if not inspect.isclass(value):
        return [f"  def {name}{signature(value)}" if callable(value) else f"  {name}: {type(value).__name__}"]
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    lines = [f"  class {name}({bases})"]
    if "__init__" in vars(value):
        lines.append(f"    def __init__{signature(value.__init__)}")
    if members:
        fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        shown = {key: each for key, each in vars(value).items() if key in PROTOCOLS or not key.startswith("_")}
        lines += [f"    {describe_member(key, shown[key])}" for key in sorted(set(shown) - fields - {"kind"})]
        promised = vars(value).get("__annotations__", {})
        lines += [f"    {key}: {promised[key]}" for key in sorted(set(promised) - set(shown) - fields)]
    return lines


def describe_member(name: str, member: Any) -> str:
    """One line for a member of a class."""
    if isinstance(member, property):
        return f"property {name} -> {inspect.get_annotations(member.fget).get('return', '')}"  # type: ignore[arg-type]
    if isinstance(member, classmethod | staticmethod):
        return f"{type(member).__name__} {name}{signature(member.__func__)}"
    if inspect.isroutine(member):
        return f"def {name}{signature(member)}"
    return f"{name} = {sorted(member) if isinstance(member, frozenset) else repr(member)}"


def signature(value: Any) -> str:
    """A signature as text, its annotations as they are written."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))


def test_public_surface_is_as_recorded() -> None:
    recorded = SNAPSHOT.read_text().splitlines()
    now = surface().splitlines()
    gone = [f"- {line.strip()}" for line in recorded if line not in now]
    new = [f"+ {line.strip()}" for line in now if line not in recorded]
    changes = "\n".join([*gone, *new])
    assert recorded == now, f"the public surface changed; if that is meant, run: {COMMAND}\n{changes}"


def test_every_public_name_has_a_docstring() -> None:
    bare = []
    for name in public_modules():
        module = import_module(f"{ROOT}.{name}".rstrip("."))
        for public in names(module):
            value = getattr(module, public)
            ours = inspect.isclass(value) or inspect.isfunction(value)
            if ours and not inspect.getdoc(value):
                bare.append(f"{module.__name__}.{public}")
    assert not bare


if __name__ == "__main__":
    SNAPSHOT.write_text(surface())
