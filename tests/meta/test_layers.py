"""Imports inside the package go one way: the layers of docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grpo_lightning.kinds import KINDS

PACKAGE = "grpo_lightning"
SOURCE = Path(__file__).parents[2] / "src"
FOLDERS = {kind.folder for kind in KINDS.values()}
KINDS_SHOW = {"foundation", "bases", "inner"}
"""What a kind shows to the layers above it: not its ideas, which the registry finds by name."""
LAYERS: dict[str, set[str]] = {
    # Each layer, and what it may import besides itself.
    "foundation": set(),  # types, errors, functional, component, kinds, reports
    "bases": {"foundation"},  # <kind>/base.py, and rewards/entry.py: all that a kind shows to other kinds
    "inner": {"foundation", "bases"},  # the other files of a kind; inside its folder all but the base import freely
    "ideas": {"foundation", "bases", "inner"},  # those that builtins.py registers
    "settings": {"foundation", "bases"},
    "rollout": {*KINDS_SHOW, "settings"},
    "registration": {"foundation", "bases", "ideas"},  # hookspecs, pluginmanager, registry, builtins
    "loop": {
        *KINDS_SHOW,
        "settings",
        "rollout",
        "registration",
    },  # Lightning's pair, module.py and data/, and what it is made of
    "cli": {*KINDS_SHOW, "settings", "rollout", "registration", "loop", "testing"},
    "testing": {*KINDS_SHOW, "settings", "rollout", "registration", "loop"},  # the conformance kit; only cli imports it
    "root": {"foundation", "registration", "loop", "cli"},  # the names that the package shows
}
TOP_LEVEL = {
    "_version": "foundation",
    "types": "foundation",
    "errors": "foundation",
    "functional": "foundation",
    "component": "foundation",
    "kinds": "foundation",
    "reports": "foundation",
    "formula": "foundation",
    "atomic_files": "foundation",
    "preemption": "foundation",
    "profiling": "foundation",
    "steps": "foundation",
    "rollout_table": "foundation",
    "settings": "settings",
    "rollout": "rollout",
    "evaluation": "rollout",
    "objective": "rollout",
    "update": "rollout",
    "row_length": "loop",
    "session": "loop",
    "evaluations": "loop",
    "explanation": "loop",
    "planning": "loop",
    "entropy_bonus": "foundation",
    "compat": "foundation",
    "run_checks": "loop",
    "hookspecs": "registration",
    "plugin_switches": "registration",
    "pluginmanager": "registration",
    "plugin_record": "loop",
    "registry": "registration",
    "builtins": "registration",
    "data": "loop",
    "module": "loop",
    "strategies": "loop",
    "testing": "testing",
    "cli": "cli",
    "__main__": "root",
    "": "root",
}
SHOWN = {"rewards.entry", "policies.attention"}
"""Files of a kind that other kinds may import beside its base."""


def modules() -> dict[str, Path]:
    """Every module of the package, by its name below the package."""
    found = {}
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = list(path.relative_to(SOURCE / PACKAGE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = path
    return found


def registered() -> set[str]:
    """Modules of the built-in components, read from builtins.py."""
    found = set()
    for node in ast.walk(ast.parse((SOURCE / PACKAGE / "builtins.py").read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            found.add(str(node.module).removeprefix(f"{PACKAGE}."))
    return found


MODULES = modules()
IDEAS = registered()


def layer(module: str) -> str:
    """The layer of a module, named below the package."""
    folder, _, rest = module.partition(".")
    if folder not in FOLDERS:
        assert folder in TOP_LEVEL, f"{folder} is in no layer: give it one here, and a line in docs/architecture.md"
        return TOP_LEVEL[folder]
    if rest == "base" or module in SHOWN:
        return "bases"
    return "ideas" if module in IDEAS or not rest else "inner"


def imported(path: Path) -> list[tuple[int, str]]:
    """Line and name, below the package, of every module of the package that a file imports, types included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full == f"{PACKAGE}.__version__":
                    full = f"{PACKAGE}._version"
                found.append((node.lineno, full if full.removeprefix(f"{PACKAGE}.") in MODULES else str(node.module)))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            argument = node.args[0] if node.args else None
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.append((node.lineno, argument.value))
    inside = [(line, name) for line, name in found if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return [(line, name.removeprefix(PACKAGE).removeprefix(".")) for line, name in inside]


def fault(module: str, target: str) -> str | None:
    """Why ``module`` may not import ``target``; ``None`` if it may."""
    own, other = layer(module), layer(target)
    folder, other_folder = module.partition(".")[0], target.partition(".")[0]
    if folder in FOLDERS and other_folder in FOLDERS and folder != other_folder and other != "bases":
        return "a kind imports another kind's base and nothing else of it"
    if folder == other_folder and own != "bases":
        return None
    if other == own or other in LAYERS[own]:
        return None
    return f"{own} may import {', '.join(sorted(LAYERS[own])) or 'nothing'}, not {other}"


@pytest.mark.parametrize("module", MODULES, ids=lambda name: name or "root")
def test_imports_go_one_way(module: str) -> None:
    faults = [
        f"{MODULES[module]}:{line}: imports {target or PACKAGE}: {reason}"
        for line, target in imported(MODULES[module])
        if (reason := fault(module, target)) is not None
    ]
    assert not faults, "\n".join(faults)


def test_layers_have_no_cycle() -> None:
    left = dict(LAYERS)
    while left:
        free = {name for name, below in left.items() if not below & set(left)}
        assert free, f"a cycle among {sorted(left)}"
        left = {name: below for name, below in left.items() if name not in free}


@pytest.mark.parametrize(
    ("module", "target", "allowed"),
    [
        ("losses.clipped", "losses.base", True),
        ("losses.clipped", "kl.base", True),
        ("losses.clipped", "kl.k3", False),
        ("losses.base", "losses.clipped", False),
        ("rewards.exact_match", "rewards.numeric_match", True),
        ("losses.clipped", "registry", False),
        ("functional.groups", "losses.base", False),
        ("rollout.buffer", "losses.clipped", False),
        ("rollout.buffer", "registry", False),
        ("rollout.collector", "rewards.runner", True),
        ("rollout.collector", "rewards.regex", False),
        ("losses.clipped", "rewards.runner", False),
        ("rewards.base", "rewards.runner", False),
        ("module", "cli.main", False),
        ("cli.main", "module", True),
        ("rewards.exact_match", "", False),
    ],
)
def test_the_law_itself(module: str, target: str, allowed: bool) -> None:
    assert (fault(module, target) is None) is allowed


def test_plugins_import_only_what_is_public() -> None:
    public = {"", "types", "errors", "settings", "reports", "steps", "formula", "compat", "hookspecs", "functional"}
    public |= {"rewards.entry", "rewards.extraction", "policies.causal_lm", "testing"}
    faults = []
    for path in sorted((SOURCE.parent / "plugins").glob("*/src/**/*.py")):
        for line, target in imported(path):
            if target.partition(".")[0] not in public and not target.endswith(".base") and target not in public:
                faults.append(f"{path}:{line}: imports {target}, which is not public")
    assert not faults, "\n".join(faults)


def test_the_core_never_imports_a_plugin() -> None:
    names = {path.name for path in (SOURCE.parent / "plugins").glob("*/src/*") if path.is_dir()}
    for path in MODULES.values():
        text = path.read_text()
        assert not any(f"import {name}" in text or f"from {name}" in text for name in names), path
