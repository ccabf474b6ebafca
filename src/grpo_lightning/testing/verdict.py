"""All checks of one component, run outside pytest."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from grpo_lightning.testing.catalogue import checks_of
from grpo_lightning.testing.check import Check, Nonconformity, Specimen
from grpo_lightning.testing.global_state import preserved_globals

BUILT = "can_be_built"
"""The check without which no other has a meaning."""


@dataclass(frozen=True)
class Outcome:
    """What came of one check."""

    check: Check
    error: str | None = None
    """What is wrong; ``None`` if nothing is."""

    @property
    def passed(self) -> bool:
        """Whether the component does what the check asks for."""
        return self.error is None


def check_component(specimen: Specimen | type) -> list[Outcome]:
    """What comes of every check of a component's kind, in order; nothing that goes wrong is raised.

    A component that cannot be built has the first check fail and no others.

    Args:
        specimen: The component with what it is built and tried with, or its class, which then gives an example of itself.

    Example:
        >>> from grpo_lightning.rewards.exact_match import ExactMatch
        >>> [outcome.check.name for outcome in check_component(ExactMatch) if not outcome.passed]
        []
    """
    tried = specimen if isinstance(specimen, Specimen) else Specimen.of(specimen)
    outcomes: list[Outcome] = []
    for check in checks_of(tried.kind):
        outcomes.append(Outcome(check, fault(check, tried)))
        if check.name == BUILT and not outcomes[-1].passed:
            break
    return outcomes


def fault(check: Check, specimen: Specimen) -> str | None:
    """What a check finds wrong with a component; ``None`` if nothing. Whatever the process shares is put back."""
    with preserved_globals():
        try:
            check.run(specimen)
        except Nonconformity as error:
            return str(error)
        except Exception as error:  # a component may raise anything
            return unexpected(error)
    return None


def unexpected(error: Exception) -> str:
    """An exception that a component should not have raised, with its type and place."""
    message = " ".join(str(error).split()) or "no message"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return f"It raised {type(error).__name__}: {message}{place}"
