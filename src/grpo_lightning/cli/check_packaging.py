"""How a distribution that holds a plugin is packaged: what a user of it would stumble over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from grpo_lightning.cli.scaffold_names import PREFIX
from grpo_lightning.hookspecs import PROJECT
from grpo_lightning.plugin_switches import normalised


def packaging_warnings(owner: str) -> Iterator[str]:
    """What is unusual about an installed distribution, each in one sentence.

    Args:
        owner: Name of the distribution.
    """
    try:
        found = distribution(owner)
    except (PackageNotFoundError, ValueError):
        return
    name = normalised(owner)
    if not name.startswith(PREFIX):
        yield f"its name does not begin with {PREFIX}, by which people find plugins"
    if re.fullmatch(r"[0.]*", found.version or ""):
        yield "it has no version; runs record it, so set one in pyproject.toml"
    if not found.metadata["Summary"]:
        yield "it has no description; set one in pyproject.toml"
    needed = {normalised(re.split(r"[^A-Za-z0-9._-]", each.strip())[0]) for each in found.requires or []}
    if "grpo-lightning" not in needed:
        yield 'it does not require grpo-lightning; add "grpo-lightning>=0.1" to its dependencies'
    short = name.removeprefix(PREFIX)
    for point in found.entry_points:
        if point.group == PROJECT and normalised(point.name) != short:
            yield f"its entry point is called {point.name!r}, and {short!r} by its own name is what people would look for"
