"""What ``fit --help`` shows: every setting of a run on a page."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Collection, Iterator
from typing import Any

from grpo_lightning.cli.configuration import Targets
from grpo_lightning.cli.documentation import options
from grpo_lightning.cli.run_settings import RunSettings, belongs_to
from grpo_lightning.cli.schema import Shape, parameters
from grpo_lightning.registry import Registry

SHOWN_TRAINER = ("max_steps", "accelerator", "devices", "strategy", "precision", "gradient_clip_val", "callbacks")
"""Settings of the Trainer that a run is likely to need."""


def help_page(command: str, targets: Targets, known: Registry) -> str:
    """The settings of ``command``, with their defaults, docstrings and the components they take."""
    lines = [
        f"usage: python -m grpo_lightning {command} [--config FILE ...] [--setting VALUE ...]",
        "",
        "  --config FILE        YAML; several are laid over each other from left to right; default is the embedded run",
        "  --a.b VALUE          set model.…, data.… or trainer.…; the value is read as YAML",
        "  --a.list+=VALUE      add to a list;  --a.list.0.b VALUE changes one item",
        "  --print_config       show the whole configuration and stop",
        "",
        "run",
        *_settings("", RunSettings, known, only=[name for name in _names(RunSettings) if belongs_to(name, command)]),
        "",
        "model",
        *_settings("model.", targets.model, known),
        "",
        "data",
        *_settings("data.", targets.data, known),
        "",
        "trainer (every argument of Lightning's Trainer; often:)",
        *_settings("trainer.", targets.trainer, known, only=SHOWN_TRAINER),
        "",
        "A component is written as its name or {name: ..., option: ...}; its options: "
        "python -m grpo_lightning plugins show NAME",
        "",
    ]
    return "\n".join(lines)


def _names(owner: Any) -> list[str]:
    return [item.name for item in dataclasses.fields(owner)]


def _settings(prefix: str, owner: Any, known: Registry, only: Collection[str] | None = None) -> Iterator[str]:
    for option in options(owner):
        if only is not None and option.name not in only:
            continue
        value = "required" if option.required else str(option.default)
        yield f"  --{prefix}{option.name} ({value})"
        if option.help:
            yield f"      {textwrap.shorten(option.help, 200, placeholder=' ...')}"
        if option.kind:
            names = ", ".join(sorted(known.entries[option.kind]))
            yield f"      {option.kind}: {names}"
        for shape in parameters(owner)[option.name].shapes:
            yield from _inner(f"{prefix}{option.name}", shape, known)


def _inner(name: str, shape: Shape, known: Registry) -> Iterator[str]:
    """The settings of a group, of the items of a list, or of what names stand for."""
    if shape.form == "group":
        fields = [field for field in parameters(shape.cls) if field != shape.component_field]
        yield from _settings(f"{name}.", shape.cls, known, only=fields)
    inside = {"list": f"{name}.0", "names": f"{name}.NAME"}.get(shape.form, "")
    for each in shape.of:
        yield from _inner(inside, each, known)
