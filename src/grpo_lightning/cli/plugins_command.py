"""``plugins list``, ``show``, ``new`` and ``check``."""

from __future__ import annotations

import json
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from grpo_lightning.cli.check_plugin import check_plugin
from grpo_lightning.cli.documentation import all_options, description
from grpo_lightning.cli.scaffold import create_plugin
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.kinds import KINDS
from grpo_lightning.registry import Entry, Registry, registry


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of the command."""
    parser.set_defaults(action="list", kind=None, json=False)
    actions = parser.add_subparsers(parser_class=type(parser))
    listing = actions.add_parser("list", help="every component, by kind")
    showing = actions.add_parser("show", help="one component: what it does and its options")
    showing.add_argument("name", help="registered name, class name or import path")
    making = actions.add_parser("new", help="write a package with a working component, its tests and a configuration")
    making.add_argument("name", help="such as my-reward; the package is then grpo-lightning-my-reward")
    making.add_argument("--kind", required=True, help=f"kind of its component: {', '.join(KINDS)}")
    making.add_argument("--output", default=".", metavar="DIR", help="folder in which the package's folder is made")
    checking = actions.add_parser("check", help="try whether a plugin's components keep the contracts of their kinds")
    checking.add_argument("name", help="distribution, plugin, registered name, class name or import path")
    checking.add_argument("--verbose", action="store_true", help="say what every check found to hold")
    for action, each in (("list", listing), ("show", showing), ("check", checking), ("new", making)):
        each.set_defaults(action=action)
        if action != "new":
            each.add_argument("--kind", choices=sorted(KINDS), help="only components of this kind")
            each.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """list and show what is installed, begin a plugin, check one"""
    known, code = registry(), 0
    if arguments.action == "list":
        entries = [entry for entry in known if arguments.kind in (None, entry.kind)]
        text = json.dumps(_listed(known, entries), indent=2) if arguments.json else _table(known, entries)
    elif arguments.action == "new":
        text = _made(known, arguments.name, arguments.kind, Path(arguments.output))
    elif arguments.action == "check":
        verdict = check_plugin(known, arguments.name, arguments.kind)
        page = verdict.page(verbose=arguments.verbose)
        text, code = json.dumps(verdict.as_json(), indent=2) if arguments.json else page, int(not verdict.passed)
    else:
        entry = _find(known, arguments.name, arguments.kind)
        text = json.dumps(_shown(entry), indent=2, default=str) if arguments.json else _page(entry)
    sys.stdout.write(text.rstrip("\n") + "\n")
    return code


def _made(known: Registry, name: str, kind: str, parent: Path) -> str:
    names, folder = create_plugin(name, kind, parent, known)
    # With a ./ before it, so that pip cannot take a folder's name for that of a package.
    place = str(folder) if folder.is_absolute() else f"./{folder.as_posix()}"
    place = f"'{place}'" if " " in place else place
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    lines = [f"{folder}: a {kind} called {names.component}", *(f"  {file}" for file in files), "", "next:"]
    lines += [f"  pip install -e {place}", f"  python -m grpo_lightning plugins check {names.short}"]
    return "\n".join([*lines, f"  python -m pytest {place}"])


def _listed(known: Registry, entries: list[Entry]) -> dict[str, Any]:
    return {
        "components": [asdict(entry) for entry in entries],
        "plugins": [
            {"name": each.name, "distribution": each.distribution, "version": each.version}
            for each in known.source.loaded
        ],
        "failures": [asdict(failure) for failure in known.failures],
    }


def _table(known: Registry, entries: list[Entry]) -> str:
    width = max((len(entry.name) for entry in entries), default=0)
    lines: list[str] = []
    for kind, group in groupby(entries, key=lambda entry: entry.kind):
        lines.append(f"{kind}: {KINDS[kind].decides}")
        for entry in group:
            lines.append(f"  {entry.name:<{width}}  {entry.summary} [{_owner(entry)}]")
        lines.append("")
    lines += [f"{'left out' if failure.wanted else 'failed'}: {failure}" for failure in known.failures]
    return "\n".join(lines)


def _owner(entry: Entry) -> str:
    return f"{entry.distribution} {entry.version}".strip()


def _find(known: Registry, name: str, kind: str | None) -> Entry:
    kinds = [kind] if kind else list(KINDS)
    found = [entry for each in kinds if (entry := known.find(each, name)) is not None]
    if len(found) > 1:
        several = " or ".join(f"--kind {entry.kind}" for entry in found)
        raise ConfigError("name", name, "is the name of components of several kinds", f"add {several}")
    if not found:
        broken = "".join(f" ({failure})" for failure in known.failures)
        names = [entry.name for entry in known if entry.kind in kinds]
        raise ConfigError("name", name, f"is no component{broken}", near_matches(name, names))
    return found[0]


def _load(entry: Entry) -> Any:
    return registry().resolve(entry.kind, entry.path)


def _shown(entry: Entry) -> dict[str, Any]:
    component = _load(entry)
    return {
        **asdict(entry),
        "description": description(component),
        "options": [asdict(option) for option in all_options(component)],
    }


def _page(entry: Entry) -> str:
    component = _load(entry)
    lines = [f"{entry.name} ({entry.kind}: {KINDS[entry.kind].decides})", f"{entry.path} of {_owner(entry)}", ""]
    lines += [description(component), ""]
    for option in all_options(component):
        value = "required" if option.required else f"default {option.default!r}"
        lines.append(f"  {option.name}: {option.type} ({value})")
        lines += textwrap.wrap(option.help, 110, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)
