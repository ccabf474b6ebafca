"""Writes docs/components.md, and docs/components/ with every equation, from the registry: python docs/build_components.py"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_lightning import create
from grpo_lightning.advantages.base import Advantage
from grpo_lightning.cli.documentation import options as arguments_of
from grpo_lightning.explanation.equation import SHARED
from grpo_lightning.formula import Formula
from grpo_lightning.kinds import KINDS, Kind
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Entry, Registry, constructor_parameters

PAGE = Path(__file__).with_name("components.md")
FOLDER = Path(__file__).with_name("components")
HEAD = """# Components

Every part that comes with the package, by kind. `python -m grpo_lightning plugins list` shows these and what installed
plugins add; `python -m grpo_lightning plugins show NAME` shows one with its options. An option without a default must
be set. A part is named in YAML by its name, by its class name or by its import path:

```yaml
advantage: leave_one_out
loss: {name: clipped, epsilon_high: 0.28}
```

and in Python by `grpo_lightning.create("loss", "clipped", epsilon_high=0.28)`. How to add one from outside:
[hooks.md](hooks.md). What is proven of each, and how: [objectives.md](objectives.md). This page is written by
`python docs/build_components.py`.
"""
ARGUMENTS: dict[tuple[str, str], dict[str, Any]] = {
    ("transform", "clip"): {"limit": 5.0},
    ("selector", "max_variance"): {"keep": 4},
    ("aggregation", "constant_length"): {"length": 512},
    ("correction", "product"): {"parts": ["sequence_rejection", "truncated_importance"]},
    ("correction", "tv_mask"): {"limit": 0.2},
}
"""What an equation is shown with where a part has options that must be set."""
LEFT = {
    "advantage": "`A_i` is the advantage of row i, `A_it` that of its step t.",
    "transform": "`A_i` is the advantage of row i: what stands on the right comes in, what stands on the left goes out.",
    "selector": "A selector decides which rows train; what it drops leaves every normaliser.",
    "loss": "`l_it` is the term of step t of row i, `l_i` that of a row, `l_g` that of a group. A loss normalises nothing: "
    "an [aggregation](aggregations.md) sums its terms up.",
    "aggregation": "The equation is what stands before the terms, and says what their sum is divided by. Every count is over "
    "the whole update on all ranks, however it is cut into micro-batches.",
    "kl": "`k_it` is the value of step t of row i; it is normalised as the terms of the loss are.",
    "correction": "`c_it` is what the policy term of step t of row i is multiplied by, without a gradient.",
    "auxiliary": "`L` is what is added to the objective, or trained before it, with a normaliser of its own.",
}
"""What the left-hand side of the equations of a kind means; the kinds that have a page of their own."""
SCOPES = {
    "step": "one term a step",
    "sequence": "one term a row, which an aggregation counts at each of its steps",
    "group": "one term a group, which an aggregation counts at each step of its rows",
    "update": "one term a step, after a look at all steps of the update",
}


def pages() -> dict[Path, str]:
    """The text of every page."""
    registry = Registry(Plugins([]))
    sections = [section(kind, [entry for entry in registry if entry.kind == kind.name]) for kind in KINDS.values()]
    written = {PAGE: "\n".join([HEAD, *sections])}
    for name in LEFT:
        entries = [entry for entry in registry if entry.kind == name]
        written[FOLDER / f"{KINDS[name].folder}.md"] = kind_page(KINDS[name], entries)
    return written


def page() -> str:
    """The text of docs/components.md."""
    return pages()[PAGE]


def section(kind: Kind, entries: list[Entry]) -> str:
    """The table of one kind."""
    base = "lightning.pytorch.Callback" if kind.name == "callback" else f"grpo_lightning.{kind.folder}.base.{kind.base}"
    target = f"components/{kind.folder}.md"
    more = f" Equations, options, sources, examples: [{target}]({target})." if kind.name in LEFT else ""
    lines = [
        f"## {kind.folder}",
        "",
        f"Kind `{kind.name}`: {kind.decides}. Base class `{base}`.{more}",
        "",
        "| name | what it is | options |",
        "|---|---|---|",
    ]
    for entry in entries:
        name = f"[`{entry.name}`]({target}#{entry.name})" if kind.name in LEFT else f"`{entry.name}`"
        lines.append(f"| {name} | {cell(paragraphs(entry.load())[0])} | {options(entry)} |")
    return "\n".join([*lines, ""])


def options(entry: Entry) -> str:
    """Options of a component with their defaults."""
    shown = []
    for name, parameter in constructor_parameters(entry.load()).items():
        default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
        shown.append(f"`{name}{cell(default)}`")
    return ", ".join(shown)


def kind_page(kind: Kind, entries: list[Entry]) -> str:
    """The page of one kind."""
    lines = [
        "<!-- fmt: off -->",
        "",
        f"# {kind.folder.capitalize() if kind.name != 'kl' else 'KL estimators'}",
        "",
        f"Kind `{kind.name}`: {kind.decides}. {LEFT[kind.name]} No example needs Lightning. Written by "
        "`python docs/build_components.py` from the docstrings; all kinds: [components.md](../components.md).",
        "",
        ", ".join(f"[`{entry.name}`](#{entry.name})" for entry in entries),
        "",
    ]
    equations = [entry.name for entry in entries if instance(kind.name, entry.name).formula()]
    if equations:
        lines += [
            f'Equations are shown with the numbers of the defaults: `grpo_lightning.create("{kind.name}", NAME).formula()` '
            "gives them for any others, and `python -m grpo_lightning explain --config X` for a whole run.",
            "",
            "Symbols that all equations share:",
            "",
            *table(["symbol", "meaning"], [[f"`{name}`", meaning] for name, meaning in SHARED.items()]),
        ]
    return "\n".join([*lines, *(line for entry in entries for line in component(kind.name, entry))])


def component(kind: str, entry: Entry) -> Iterator[str]:
    """The lines of one component."""
    found: Any = entry.load()
    given = ARGUMENTS.get((kind, entry.name), {})
    made = instance(kind, entry.name)
    first, *rest = paragraphs(found)
    yield from [f"## {entry.name}", "", markdown(first), ""]
    formula: Formula | None = made.formula()
    if formula is not None:
        if given:
            yield from [f"With {', '.join(f'`{name}: {yaml(value)}`' for name, value in given.items())}:", ""]
        yield from ["```text", formula.text, "```", "", "```math", math(formula.latex), "```", ""]
        rows = [[f"`{cell(name)}`", cell(meaning)] for name, meaning in formula.symbols.items()]
        yield from table(["symbol", "meaning"], rows)
    yield from [f"In short: {'; '.join(facts(kind, made))}.", ""] if facts(kind, made) else []
    for paragraph in rest:
        yield from [markdown(paragraph), ""]
    yield from table(
        ["option", "type", "default", "meaning"],
        [
            [f"`{each.name}`", choice(each.type), "must be set" if each.required else f"`{yaml(each.default)}`",
             cell(each.help)]
            for each in arguments_of(found)
        ],
    )  # fmt: skip
    said = " ".join((found.__doc__ or "").split())
    sources = [markdown(source) for source in (formula.sources if formula else ()) if source not in said]
    yield from [f"**Equation from:** {'; '.join(sources)}.", ""] if sources else []
    differs = [[system, cell(how)] for system, how in found.differs.items()]
    yield from table(["who computes it differently", "how"], differs)
    yield from ["```python", example_of(found), "```", ""]


def instance(kind: str, name: str) -> Any:
    """A component as its equation is shown: with its defaults, and with :data:`ARGUMENTS`."""
    given = dict(ARGUMENTS.get((kind, name), {}))
    if "parts" in given:
        given["parts"] = [create(kind, part) for part in given["parts"]]
    return create(kind, name, **given)


def facts(kind: str, made: Any) -> list[str]:
    """What a component declares of itself."""
    needs = [f"needs {', '.join(f'`{each}`' for each in sorted(made.functionals))} of every step's distribution"
             ] if getattr(made, "functionals", None) else []  # fmt: skip
    if kind == "loss":
        names = ", ".join(f"`{each}`" for each in sorted(made.aggregations or ()))
        goes = f"goes with {names} only: {made.why_aggregations}" if names else "goes with every aggregation"
        silent = "steps of advantage 0 have a term" if made.runs_silent else "steps of advantage 0 have no term"
        return [SCOPES[made.scope], goes.rstrip("."), silent, *needs,
                *(["takes no correction, which would weigh twice"] if made.weighs_sampler else [])]  # fmt: skip
    if kind == "advantage":
        equal = "a group of one, or of equal rewards, gets exactly 0"
        rules = made.per == "row" and type(made).silent is Advantage.silent  # those of the base class
        return [f"one value a {made.per}", *([equal] if rules and made.compares else []),
                *([f"a group of fewer than {made.smallest_group} valid rows gets 0"] if made.smallest_group > 2 else []),
                *needs,
                *(["draws one greedy completion more of every prompt"] if made.greedy else []),
                *(["reads the scores of the single rewards"] if made.reads_components else []),
                *(["has a state, which is in the checkpoint"] if made.state_dict() else [])]  # fmt: skip
    if kind == "correction":
        level = "a row" if made.level == "sequence" else "a step, so it goes with no loss of one term a row or group"
        whole = ["sees the whole update at once"] if made.whole_update else []
        return [f"one weight {level}", *whole, *needs]
    return needs


def example_of(found: type) -> str:
    """The docstring's example as a program: what a line gives stands below it as a comment."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(found) or "")
    lines, last_import = [], 0
    for each in examples:
        lines += each.source.rstrip("\n").split("\n")
        if each.source.startswith(("import ", "from ")):
            last_import = len(lines)
        lines += [f"# {line}" for line in each.want.rstrip("\n").split("\n") if line]
    names = {alias.name for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.ImportFrom)
             for alias in node.names}  # fmt: skip
    if found.__name__ not in names:
        lines.insert(last_import, f"from {found.__module__} import {found.__name__}")
    return "\n".join(lines)


def paragraphs(found: type) -> list[str]:
    """The paragraphs of a docstring and the items of its lists, each on one line; arguments and examples left out."""
    kept = []
    for block in (inspect.getdoc(found) or "").split("\n\n"):
        if block.startswith(("Args:", "Returns:", "Example:", "Attributes:")):
            continue
        block = re.sub(r"^Raises:\n\s+(\w+):", r"Raises ``\1``:", block)
        items = re.split(r"\n(?=- )", block) if block.startswith("- ") else [block]
        kept.append("\n".join(" ".join(item.split()) for item in items))
    return kept


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a table and an empty one; nothing without rows."""
    if not rows:
        return []
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows), ""]


def markdown(text: str) -> str:
    """Text of a docstring as Markdown: roles as names, papers as links."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    text = re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)
    return re.sub(r"^(Source|Step metrics):", r"**\1:**", text)


def cell(text: str) -> str:
    """Text of a docstring that may stand in a cell of a table."""
    return markdown(text).replace("|", "\\|")


def math(latex: str) -> str:
    """LaTeX as GitHub renders it, which knows no operatorname."""
    return latex.replace(r"\operatorname{", r"\mathrm{")


def choice(annotation: str) -> str:
    """A type, as one writes values of it."""
    literal = re.fullmatch(r"Literal\[(.+)\]", annotation)
    if literal:
        return " or ".join(f"`{each.strip().strip(chr(39) + chr(34))}`" for each in literal[1].split(","))
    return f"`{annotation}`".replace("|", "\\|").replace("None", "null")


def yaml(value: Any) -> str:
    """A value as in a configuration."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(yaml(each) for each in value)}]"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
