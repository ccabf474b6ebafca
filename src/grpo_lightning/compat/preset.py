"""What is known of another system: its defaults, our settings for them, and where we go another way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Followed:
    """A setting of theirs that ours follow."""

    setting: str
    """Name that the setting has there."""
    default: Any
    """Its default there."""
    ours: Mapping[str, Any]
    """Settings below ``model`` that do the same, by dotted path, with the values that the preset sets."""
    remark: str = ""
    """What else there is to know, such as what to write for another value than the default."""


@dataclass(frozen=True)
class Departure:
    """A point in which a run gets other numbers than there."""

    theirs: str
    """What they do."""
    ours: str
    """What we do."""
    why: str
    """Why the preset does not follow."""


@dataclass(frozen=True)
class Preset:
    """Settings that reproduce another system's objective, and the account of them."""

    settings: Mapping[str, Any]
    """Settings below ``model``, as in a configuration file. What a person writes lies above them."""
    follows: tuple[Followed, ...]
    """Their defaults, and what is set for each."""
    differs: tuple[Departure, ...]
    """Where the numbers are not theirs."""
    version: str
    """What was read."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Settings of theirs, with their defaults, that a preset leaves to the person: what to write here."""
    undecided: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Settings below ``model`` that have to be written with this preset: why it has no value for them, and the choices."""
