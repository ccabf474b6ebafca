"""The checks as pytest tests: a class to subclass for each kind, and a decorator for many components at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pytest

from grpo_lightning.kinds import KINDS
from grpo_lightning.testing.catalogue import checks_of
from grpo_lightning.testing.check import Check, Nonconformity, Specimen
from grpo_lightning.testing.global_state import preserved_globals
from grpo_lightning.testing.verdict import BUILT, fault

Test = TypeVar("Test", bound=Callable[..., Any])


class ComponentChecks:
    """One test for each check of a kind. Subclass that of the kind; pytest collects the subclass whatever its name."""

    __test__ = False
    kind: ClassVar[str]
    """Kind of component that the class checks."""
    component: ClassVar[type]
    """The class under test."""
    arguments: ClassVar[Mapping[str, Any] | None] = None
    """Arguments that it is built with; by default its own ``example``."""
    columns: ClassVar[Mapping[str, Sequence[Any]] | None] = None
    """Values by column of the data set that it reads; by default its own ``example_columns``."""

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        component = getattr(cls, "component", None)
        if component is None:
            if cls.__name__.startswith("Test"):
                raise TypeError(f"{cls.__name__} tests nothing: set component = YOUR_CLASS in it")
            return
        kind = getattr(component, "kind", "callback")
        if kind != cls.kind:
            fits = [suite.__name__ for suite in ComponentChecks.__subclasses__() if suite.kind == kind]
            raise TypeError(
                f"{cls.__name__} has checks for a {cls.kind}, and {component.__name__} is a {kind}: "
                f"subclass {' or '.join(fits)}"
            )
        cls.__test__ = True

    @classmethod
    def specimen(cls) -> Specimen:
        """What is tried: the component, with the arguments and columns of the class or its own."""
        own = Specimen.of(cls.component)
        arguments = own.arguments if cls.arguments is None else cls.arguments
        return Specimen(cls.component, arguments, own.columns if cls.columns is None else cls.columns)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Called by pytest: one test a check."""
        if "check" in metafunc.fixturenames:
            checks = checks_of(self.kind)
            metafunc.parametrize("check", checks, ids=[check.name for check in checks])

    def test_conforms(self, check: Check) -> None:
        """The component does what the check asks for."""
        run_check(check, self.specimen())


def run_check(check: Check, specimen: Specimen) -> None:
    """Run one check as a test; it is skipped where the component cannot be built, which a check of its own tells."""
    __tracebackhide__ = True
    if check.name != BUILT:
        first = checks_of(specimen.kind)[0]
        if fault(first, specimen) is not None:
            pytest.skip("it cannot be built: see can_be_built")
    with preserved_globals():
        try:
            check.run(specimen)
        except Nonconformity as error:
            message = str(error)
        else:
            return
    pytest.fail(message, pytrace=False)


def parametrize_with_checks(specimens: Iterable[Specimen | type]) -> Callable[[Test], Test]:
    """A decorator that runs ``test(check, specimen)`` with every check of every component; ids are ``name-check``.

    Args:
        specimens: Components as :class:`Specimen`, or classes that give an example of themselves.

    Example:
        >>> from grpo_lightning.rewards.exact_match import ExactMatch
        >>> @parametrize_with_checks([ExactMatch])
        ... def test_conforms(check, specimen):
        ...     check.run(specimen)
    """
    tried = [each if isinstance(each, Specimen) else Specimen.of(each) for each in specimens]
    cases = [
        pytest.param(
            check, specimen, id=f"{getattr(specimen.component, 'name', specimen.component.__name__)}-{check.name}"
        )
        for specimen in tried
        for check in checks_of(specimen.kind)
    ]
    return pytest.mark.parametrize(("check", "specimen"), cases)


class RewardChecks(ComponentChecks):
    """Checks of a reward. ``columns`` holds values of the columns that it reads, which prompts take in turn."""

    kind = "reward"


class AdvantageChecks(ComponentChecks):
    """Checks of an advantage estimator, against what it declares (``compares``, ``under_shift``, ...)."""

    kind = "advantage"


class TransformChecks(ComponentChecks):
    """Checks of a transform of advantages."""

    kind = "transform"


class SelectorChecks(ComponentChecks):
    """Checks of a selector of groups."""

    kind = "selector"


class LossChecks(ComponentChecks):
    """Checks of a policy loss."""

    kind = "loss"


class AggregationChecks(ComponentChecks):
    """Checks of an aggregation."""

    kind = "aggregation"


class KLChecks(ComponentChecks):
    """Checks of a KL estimator."""

    kind = "kl"


class CorrectionChecks(ComponentChecks):
    """Checks of an off-policy correction."""

    kind = "correction"


class AuxiliaryChecks(ComponentChecks):
    """Checks of an auxiliary loss."""

    kind = "auxiliary"


class SamplerChecks(ComponentChecks):
    """Checks of a sampler."""

    kind = "sampler"


class CurriculumChecks(ComponentChecks):
    """Checks of a curriculum. It is bound to two data sets, ``easy`` with 5 rows and ``hard`` with 7."""

    kind = "curriculum"


class EngineChecks(ComponentChecks):
    """Checks of an engine."""

    kind = "engine"


class EnvironmentChecks(ComponentChecks):
    """Checks of an environment. ``columns`` holds values of the columns of prompts that it reads."""

    kind = "environment"


class PolicyChecks(ComponentChecks):
    """Checks of a policy."""

    kind = "policy"


class PromptsChecks(ComponentChecks):
    """Checks of a source of prompts."""

    kind = "prompts"


class CallbackChecks(ComponentChecks):
    """Checks of a callback: a tiny run reports to it."""

    kind = "callback"


assert {suite.kind for suite in ComponentChecks.__subclasses__()} == set(KINDS)
