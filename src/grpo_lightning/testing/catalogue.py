"""Which checks a kind of component has."""

from __future__ import annotations

from importlib import import_module

from grpo_lightning.kinds import KINDS
from grpo_lightning.testing.check import Check


def checks_of(kind: str) -> tuple[Check, ...]:
    """Every check of a kind: those of all components first, then its own (``testing/<folder of the kind>.py``)."""
    general = import_module("grpo_lightning.testing.general").CHECKS
    own = import_module(f"grpo_lightning.testing.{KINDS[kind].folder}").CHECKS
    return (*general, *own)
