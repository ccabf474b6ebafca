"""A new plugin package from templates: from nothing to something that installs, trains and passes its checks."""

from __future__ import annotations

import ast
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from grpo_lightning._version import __version__
from grpo_lightning.cli.scaffold_ideas import IDEAS
from grpo_lightning.cli.scaffold_names import Names, check_free
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.kinds import KINDS
from grpo_lightning.registry import Registry


def render(names: Names, kind: str) -> dict[str, str]:
    """The files of a new package: path below its folder, and text.

    Args:
        names: What everything is called.
        kind: Kind of the component.

    Raises:
        ConfigError: If the class would have the name of something that its own module imports.
    """
    values, component = _values(names, kind), f"src/{names.module}/{names.component}.py"
    own, shared = (files("grpo_lightning.cli") / "templates" / folder for folder in (kind, "package"))
    sources = {
        "pyproject.toml": shared / "pyproject.toml.txt",
        "README.md": shared / "README.md.txt",
        f"src/{names.module}/__init__.py": _first(own / "init.py.txt", shared / "init.py.txt"),
        component: own / "component.py.txt",
        f"tests/test_{names.component}.py": own / "test.py.txt",
        f"configs/{names.component}.yaml": shared / "config.yaml.txt",
    }
    texts = {path: Template(source.read_text(encoding="utf-8")).substitute(values) for path, source in sources.items()}
    for path in sources:
        if path.endswith(".py") and names.class_name in _imported(texts[path], names):
            reason = f"would be the class {names.class_name}, a name that its own code imports"
            raise ConfigError("name", names.short, reason, f"give another name, such as my-{names.short}")
    return {**texts, f"src/{names.module}/py.typed": ""}


def create_plugin(given: str, kind: str, parent: Path, known: Registry) -> tuple[Names, Path]:
    """Write a new package.

    Args:
        given: Name, with or without ``grpo-lightning-``.
        kind: Kind of its component.
        parent: Folder in which the package's folder is made.
        known: What is installed.

    Returns:
        The names, and the package's folder.

    Raises:
        ConfigError: If a name cannot be used, or the folder is there already.
    """
    if kind not in KINDS:
        raise ConfigError("kind", kind, "is no kind of component", near_matches(kind, KINDS))
    names = Names.of(given)
    check_free(names, kind, known)
    texts, folder = render(names, kind), parent / names.distribution
    try:
        folder.mkdir(parents=True)
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except FileExistsError:
        fix = "remove it, or give another name or --output"
        raise ConfigError("output", str(folder), "is there already", fix) from None
    except OSError as error:
        raise ConfigError("output", str(folder), f"cannot be written ({error})", "give another --output") from None
    return names, folder


def _values(names: Names, kind: str) -> dict[str, str]:
    idea, about = IDEAS[kind], KINDS[kind]
    snippets = {
        "usage": idea.snippet(),
        "model": idea.model_lines() if kind != "reward" else idea.usage,
        "policy": idea.policy,
        "data": idea.data,
        "trainer": idea.trainer_lines(),
    }
    return {
        "short": names.short,
        "distribution": names.distribution,
        "module": names.module,
        "name": names.component,
        "class_name": names.class_name,
        "kind": kind,
        "folder": about.folder,
        "base": about.base,
        "hook": about.hook,
        "suite": idea.suite,
        "description": idea.description,
        "minimum": ".".join(__version__.split(".")[:2]),
        "steps": str(idea.steps),
        "warmup": str(idea.warmup),
        **{key: Template(text).substitute(name=names.component) for key, text in snippets.items()},
    }


def _first(path: Traversable, otherwise: Traversable) -> Traversable:
    return path if path.is_file() else otherwise


def _imported(text: str, names: Names) -> set[str]:
    """Names that a file imports from anywhere but the new package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(names.module):
            found |= {alias.name for alias in node.names}
    return found
