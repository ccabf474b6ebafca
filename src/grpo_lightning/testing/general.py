"""Checks of every component, whatever its kind."""

from __future__ import annotations

import inspect
import re

from grpo_lightning.formula import Formula
from grpo_lightning.kinds import KINDS
from grpo_lightning.registry import constructor_parameters
from grpo_lightning.testing import built
from grpo_lightning.testing.built import importable, path_of
from grpo_lightning.testing.check import Nonconformity, Specimen, checks, expect
from grpo_lightning.testing.clean_import import heavy_imports

LIGHT_BASES = tuple(f"grpo_lightning.{kind.folder}.base" for kind in KINDS.values() if kind.name != "callback")
CALLBACK_BASE = ("grpo_lightning.callbacks.base",)


def check_can_be_built(specimen: Specimen) -> None:
    """Its arguments build it: the defaults, its ``example``, or those that the test gives."""
    component, missing = specimen.component, _missing(specimen)
    must = "A component has what it needs to be tried"
    give = "{" + ", ".join(f"{name!r}: ..." for name in missing) + "}"
    expect(not missing, must, f"{component.__name__} needs {', '.join(missing)}",
           f"set example = {give} on the class, or arguments = {give} in the test")  # fmt: skip
    undefined = sorted(getattr(component, "__abstractmethods__", ()))
    expect(not undefined, "A component defines every abstract method of its base class",
           f"{component.__name__} does not define {', '.join(undefined)}", "define it, see the base class")  # fmt: skip
    try:
        specimen.make()
    except Exception as error:  # the constructor's
        found = f"{type(error).__name__}: {error}"
        mend = "give arguments that it takes, in example on the class or in arguments in the test"
        raise Nonconformity(f"{must}. Found: {found}. To mend it: {mend}.") from error


def check_names_itself(specimen: Specimen) -> None:
    """The class itself has a ``name``, in snake_case."""
    name = specimen.component.__dict__.get("name")
    good = isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_]*", name) is not None
    written = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", specimen.component.__name__).lower()
    found = f"it is {name!r}" if "name" in specimen.component.__dict__ else "it has none of its own"
    expect(good, "A component has a name of its own in snake_case, by which YAML finds it", found,
           f"write name = {written!r} in the class")  # fmt: skip


def check_says_what_it_computes(specimen: Specimen) -> None:
    """The class has a docstring whose first line says what it computes."""
    first = inspect.cleandoc(specimen.component.__doc__ or "").partition("\n")[0]
    generated = first.startswith(f"{specimen.component.__name__}(")  # what a dataclass writes of itself
    expect(bool(first) and not generated, "The first line of a class's docstring says what it computes, and is what lists show",
           "it has none" if not first else f"it is {first!r}", "write one, a sentence or a formula")  # fmt: skip


def check_lies_at_top_level(specimen: Specimen) -> None:
    """The class lies at the top level of its module, so that its import path leads to it."""
    expect(importable(specimen.component), "A component is found by its import path",
           f"{path_of(specimen.component)} leads to nothing, or to something else",
           "define the class at the top level of a module")  # fmt: skip


def check_takes_typed_keywords(specimen: Specimen) -> None:
    """Its constructor takes keyword arguments only, each with a type hint."""
    for name, parameter in constructor_parameters(specimen.component).items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        expect(parameter.kind is parameter.KEYWORD_ONLY, "A constructor takes its arguments by name only",
               f"{name!r} can be given by position", "write def __init__(self, *, ...)")  # fmt: skip
        expect(parameter.annotation is not parameter.empty,
               "Every argument of a constructor has a type hint, by which YAML is read",
               f"{name!r} has none", f"write {name}: int, say")  # fmt: skip


def check_imports_nothing_heavy(specimen: Specimen) -> None:
    """Importing its module brings along no heavy package that the base of its kind does without."""
    component = specimen.component
    if component.__module__ == "__main__" or not importable(component):
        return
    base = CALLBACK_BASE if specimen.kind == "callback" else LIGHT_BASES
    found = heavy_imports(component.__module__, base)
    must = "Importing the module of a component is quick, for every command imports it"
    expect(
        not isinstance(found, str), "The module of a component can be imported by itself", str(found), "see the error"
    )
    heavy = [name for name in found if name not in getattr(component, "heavy_imports", ())]
    mend = (
        "import it in the method that needs it; or register the class by path, with LazyComponent, and declare "
        f"heavy_imports = {tuple(heavy)!r} on it"
    )
    expect(not heavy, must, f"it imports {', '.join(heavy)}", mend)


def check_shows_a_formula(specimen: Specimen) -> None:
    """``formula()`` gives an equation of its own, with its numbers, or None."""
    if specimen.kind == "callback":
        return
    formula = specimen.make().formula()
    good = formula is None or (isinstance(formula, Formula) and bool(formula.text) and bool(formula.latex))
    expect(good, "formula() returns a Formula with text and latex, or None", repr(formula),
           "return Formula(text=..., latex=...), or leave the method out")  # fmt: skip


def _missing(specimen: Specimen) -> list[str]:
    """Arguments that must be given and are not."""
    return [
        name
        for name, parameter in constructor_parameters(specimen.component).items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and name not in specimen.arguments
    ]


CHECKS = (
    *checks(
        check_can_be_built,
        check_names_itself,
        check_says_what_it_computes,
        check_lies_at_top_level,
        check_takes_typed_keywords,
        check_imports_nothing_heavy,
        check_shows_a_formula,
    ),
    *built.CHECKS,
)
