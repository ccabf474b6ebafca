"""Errors that say what is wrong, where it was set, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class GRPOError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(GRPOError, ValueError):
    """A setting that cannot be used.

    Args:
        setting: Name of the setting. A component names its own argument (``epsilon_low``); whoever builds the component
            puts the path before it (``model.loss.epsilon_low``), see :meth:`under`.
        value: The offending value, shown with ``repr``.
        reason: Why it cannot be used.
        fix: What to write instead.
    """

    def __init__(self, setting: str, value: Any, reason: str, fix: str) -> None:
        self.setting, self.value, self.reason, self.fix = setting, value, reason, fix
        super().__init__(setting, value, reason, fix)

    def __str__(self) -> str:
        value = repr(self.value)
        if len(value) > 120:
            value = value[:117] + "..."
        return " ".join(f"{self.setting}: {value} {self.reason}; {self.fix}".split())

    def under(self, path: str) -> ConfigError:
        """The same error, with ``path`` before the setting's name."""
        return type(self)(f"{path}.{self.setting}" if self.setting else path, self.value, self.reason, self.fix)


class DataError(ConfigError):
    """A data file or a row of it that cannot be used."""


class PluginError(GRPOError):
    """A plugin that cannot be loaded, or two components that claim one name."""


class RewardError(GRPOError, RuntimeError):
    """A reward that raised or gave what is no score, under the policy ``on_failure: stop``, or that hangs too often."""


class NonFiniteError(GRPOError, ArithmeticError):
    """A loss or gradient that is not finite, under the policy ``non_finite: stop``."""


class PreemptedError(GRPOError):
    """A signal asked the run to stop.

    Args:
        signum: The signal.
    """

    def __init__(self, signum: int) -> None:
        self.signum = int(signum)
        super().__init__(self.signum)

    def __str__(self) -> str:
        return f"asked to stop by signal {self.signum}"


def near_matches(name: str, known: Iterable[str]) -> str:
    """A clause that lists known names close to ``name``, or all of them where none is close."""
    known = sorted(set(known))
    close = get_close_matches(name, known, n=3, cutoff=0.55)
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "known: " + ", ".join(known) if known else "none is registered"


def require(ok: bool, setting: str, value: Any, reason: str, fix: str) -> None:
    """Raise :class:`ConfigError` unless ``ok``.

    Raises:
        ConfigError: If ``ok`` is false.
    """
    if not ok:
        raise ConfigError(setting, value, reason, fix)


def require_range(
    setting: str,
    value: float,
    *,
    low: float = float("-inf"),
    high: float = float("inf"),
    low_open: bool = False,
    high_open: bool = False,
) -> None:
    """Check that ``value`` is a number between ``low`` and ``high``; an ``_open`` end is itself excluded.

    Raises:
        ConfigError: If it lies outside, or is not a number.
    """
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise ConfigError(setting, value, "is no number", f"set a number between {low:g} and {high:g}")
    above = value > low if low_open else value >= low
    below = value < high if high_open else value <= high
    left, right = "(" if low_open else "[", ")" if high_open else "]"
    if not (above and below):
        raise ConfigError(setting, value, f"is outside {left}{low:g}, {high:g}{right}", "set a value inside that range")
