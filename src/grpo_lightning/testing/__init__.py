"""The conformance kit: tests for a plugin's parts, written once for every kind.

A reward of yours, and all its tests::

    from grpo_lightning.testing import RewardChecks
    from my_package import Polite

    class TestPolite(RewardChecks):
        component = Polite
        arguments = {"word": "thanks"}            # what it is built with; left out: Polite.example, or its defaults
        columns = {"answer": ["yes", None]}       # values of the data's columns that it reads; left out: Polite.example_columns

``pytest`` then runs one test a check, named after it: ``TestPolite::test_conforms[leaves_its_arguments_alone]``. There is
such a class for every kind: :class:`RewardChecks`, :class:`AdvantageChecks`, :class:`TransformChecks`,
:class:`SelectorChecks`, :class:`LossChecks`, :class:`AggregationChecks`, :class:`KLChecks`, :class:`CorrectionChecks`,
:class:`AuxiliaryChecks`, :class:`SamplerChecks`, :class:`CurriculumChecks`, :class:`EngineChecks`,
:class:`EnvironmentChecks`, :class:`PolicyChecks`, :class:`PromptsChecks` and :class:`CallbackChecks`.

Many components at once, of any kinds::

    @parametrize_with_checks([Polite, Specimen(Brief, {"words": 3})])
    def test_conforms(check, specimen):
        check.run(specimen)

Without pytest, :func:`check_component` gives what came of every check, with a message that says what must hold, what
happened instead, and how to mend it:

>>> from grpo_lightning.rewards.regex import Regex
>>> from grpo_lightning.testing import Specimen, check_component
>>> all(outcome.passed for outcome in check_component(Specimen(Regex, {"pattern": "[0-9]+"})))
True

What a part promises beyond its contract, it declares, and the kit holds it to that: see the attributes of the base class
of its kind (``compares`` or ``under_shift`` of an advantage, ``deterministic`` of a reward).

To add a check: a function ``check_<name>(specimen)`` in the file of its kind, whose docstring's first line says what must
hold, in ``CHECKS`` there; and a component that fails it and nothing else in ``tests/unit/testing``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_lightning.testing.catalogue import checks_of as checks_of
    from grpo_lightning.testing.check import Check as Check
    from grpo_lightning.testing.check import Nonconformity as Nonconformity
    from grpo_lightning.testing.check import Specimen as Specimen
    from grpo_lightning.testing.suites import AdvantageChecks as AdvantageChecks
    from grpo_lightning.testing.suites import AggregationChecks as AggregationChecks
    from grpo_lightning.testing.suites import AuxiliaryChecks as AuxiliaryChecks
    from grpo_lightning.testing.suites import CallbackChecks as CallbackChecks
    from grpo_lightning.testing.suites import CorrectionChecks as CorrectionChecks
    from grpo_lightning.testing.suites import CurriculumChecks as CurriculumChecks
    from grpo_lightning.testing.suites import EngineChecks as EngineChecks
    from grpo_lightning.testing.suites import EnvironmentChecks as EnvironmentChecks
    from grpo_lightning.testing.suites import KLChecks as KLChecks
    from grpo_lightning.testing.suites import LossChecks as LossChecks
    from grpo_lightning.testing.suites import PolicyChecks as PolicyChecks
    from grpo_lightning.testing.suites import PromptsChecks as PromptsChecks
    from grpo_lightning.testing.suites import RewardChecks as RewardChecks
    from grpo_lightning.testing.suites import SamplerChecks as SamplerChecks
    from grpo_lightning.testing.suites import SelectorChecks as SelectorChecks
    from grpo_lightning.testing.suites import TransformChecks as TransformChecks
    from grpo_lightning.testing.suites import parametrize_with_checks as parametrize_with_checks
    from grpo_lightning.testing.verdict import Outcome as Outcome
    from grpo_lightning.testing.verdict import check_component as check_component

_FILES = {
    "catalogue": ("checks_of",),
    "check": ("Check", "Nonconformity", "Specimen"),
    "verdict": ("Outcome", "check_component"),
    "suites": (
        "AdvantageChecks",
        "AggregationChecks",
        "AuxiliaryChecks",
        "CallbackChecks",
        "CorrectionChecks",
        "CurriculumChecks",
        "EngineChecks",
        "EnvironmentChecks",
        "KLChecks",
        "LossChecks",
        "PolicyChecks",
        "PromptsChecks",
        "RewardChecks",
        "SamplerChecks",
        "SelectorChecks",
        "TransformChecks",
        "parametrize_with_checks",
    ),
}
# Imported when they are first used: the suites need pytest, which a run has not.
_LAZY = {name: file for file, names in _FILES.items() for name in names}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_LAZY[name]}")
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise ModuleNotFoundError(f"{__name__}.{name} needs pytest: pip install pytest", name="pytest") from None
    return getattr(module, name)
