"""An explanation as text, with its LaTeX."""

from __future__ import annotations

import textwrap

from grpo_lightning.explanation.equation import Explanation

WIDTH = 118


def page(explanation: Explanation, title: str = "") -> str:
    """The whole explanation in plain text, its LaTeX at the end of each block of equations."""
    lines = [title, ""] if title else []
    lines += ["Minimised in every update, over its rows on all ranks:", "", f"  {explanation.objective.text}", ""]
    width = max(len(part.role) for part in explanation.parts)
    for part in explanation.parts:
        name = f"   [{part.name}]" if part.name else ""
        lines.append(f"  {part.role:<{width}}  {part.formula.text}{name}")
    lines += ["", "where"]
    for symbol, meaning in explanation.symbols.items():
        lines += _wrapped(f"{symbol}: {meaning}", "  ", "      ")
    lines += ["", "what counts"]
    lines += [line for note in explanation.notes for line in _wrapped(note, "  - ", "    ")]
    lines += ["", "LaTeX", "", latex(explanation), ""]
    if explanation.sources:
        lines += ["papers", *(line for source in explanation.sources for line in _wrapped(source, "  - ", "    ")), ""]
    lines.append("warnings" if explanation.warnings else "warnings: none")
    lines += [line for warning in explanation.warnings for line in _wrapped(warning, "  ! ", "    ")]
    return "\n".join(lines) + "\n"


def latex(explanation: Explanation) -> str:
    """The equations as one ``aligned`` block, without dollar signs."""
    # What stands before the term is no equation of its own: it is in the first line.
    equations = [part.formula for part in explanation.parts if part.role != "aggregation"]
    rows = [explanation.objective, *equations]
    body = " \\\\\n".join(f"  {_aligned(each.latex)}" for each in rows)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def _aligned(equation: str) -> str:
    sign = "=" if "=" in equation else r"\leftarrow"
    left, found, right = equation.partition(sign)
    return f"{left.rstrip()} &{sign} {right.lstrip()}" if found else equation


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
