"""Checks of how a component is built, copied and saved, for every kind."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser
from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.errors import ConfigError
from grpo_lightning.kinds import KINDS
from grpo_lightning.registry import constructor_parameters, create, import_path
from grpo_lightning.testing.check import Nonconformity, Specimen, checks, expect
from grpo_lightning.testing.difference import difference, public
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.opened import opened


def path_of(component: type) -> str:
    """Full import path of a class."""
    return f"{component.__module__}.{component.__qualname__}"


def importable(component: type) -> bool:
    """Whether the import path of a class leads to it; those of ``<locals>`` and of nested classes do not."""
    try:
        return import_path(path_of(component)) is component
    except ImportError:
        return False


def check_loads_nothing(specimen: Specimen) -> None:
    """Building it opens no file and no connection, and starts no process: what must be loaded is loaded later."""
    with opened() as events:
        specimen.component(**copy.deepcopy(dict(specimen.arguments)))
    mend = "keep the setting in the constructor, and load in the method that the kind has for it (setup, load, prepare)"
    expect(not events, "A constructor keeps its arguments and loads nothing", "; ".join(events[:3]), mend)


def check_leaves_its_settings_alone(specimen: Specimen) -> None:
    """Building it changes none of its arguments: a list or dictionary that was given stays as it was."""
    given = copy.deepcopy(dict(specimen.arguments))
    specimen.component(**given)
    changed = difference(dict(specimen.arguments), given, "arguments")
    mend = "copy it first: self.words = list(words)"
    expect(changed is None, "A constructor does not change what it is given", f"{changed} before and after", mend)


def check_is_built_alike(specimen: Specimen) -> None:
    """Two that are built from equal arguments are equal: in every public attribute, and in their state."""
    found = _unlike(specimen)
    mend = "let only the arguments decide: no clock, no random number and no counter in the constructor or on the class"
    expect(found is None, "Two components that are built from equal arguments are equal", str(found), mend)


def check_survives_configuration(specimen: Specimen) -> None:
    """What YAML says of it builds the same: through the registry, and through jsonargparse as in a run."""
    if not importable(specimen.component) or _takes_all(specimen.component) or _unlike(specimen) is not None:
        return
    must = "Arguments that are written in YAML build the component that they build in Python"
    try:
        text = yaml.safe_dump(_plain(dict(specimen.arguments)))
    except yaml.YAMLError as error:
        mend = "take texts, numbers, lists and dictionaries, and make of them what you need (import a function by its path)"
        raise Nonconformity(f"{must}. Found: they cannot be written ({error}). To mend it: {mend}.") from None
    for how, built in (("create", _created(specimen, text)), ("jsonargparse", _parsed(specimen, text))):
        found = built if isinstance(built, str) else _different(specimen, specimen.make(), built)
        mend = (
            "annotate each argument with the type that YAML has for it (Any may make a number of a text: write str | Any), "
            "and keep what you were given"
        )
        expect(found is None, must, f"by {how}, {found}", mend)


def check_refuses_unknown_arguments(specimen: Specimen) -> None:
    """A misspelt argument is refused, naming the argument that was meant."""
    mend = "name every argument in the signature; ** would swallow a misspelt one, and train with a default"
    parameters = constructor_parameters(specimen.component)
    expect(not _takes_all(specimen.component), "A component takes the arguments that it names and no others",
           f"{specimen.component.__name__} takes any by **", mend)  # fmt: skip
    if not importable(specimen.component):
        return
    real = next(iter(parameters), "option")
    wrong = next(name for name in (f"{real}s", f"{real}ss") if name not in parameters)
    try:
        create(specimen.kind, path_of(specimen.component), **{**copy.deepcopy(dict(specimen.arguments)), wrong: 1})
    except ConfigError as error:
        named = not parameters or repr(real) in error.fix
        expect(named, f"A misspelt {real!r} is answered with {real!r}", str(error), "leave the names to the registry")
    else:
        raise Nonconformity(f"A misspelt argument is refused. Found: {wrong!r} was taken. To mend it: {mend}.")


def check_can_be_pickled(specimen: Specimen) -> None:
    """It survives pickling and copying, as it must to go to another process or into a working copy."""
    if not importable(specimen.component):
        return
    must, made = "A component can be pickled, and comes back equal", specimen.make()
    mend = "keep no lambda, open file, lock or client on it before it is used; make them in the method that loads"
    try:
        again = pickle.loads(pickle.dumps(made))
    except Exception as error:  # whatever an attribute raises
        found = f"{type(error).__name__}: {error}"
        raise Nonconformity(f"{must}. Found: {found}. To mend it: {mend}.") from error
    found_different = _different(specimen, made, again)
    expect(found_different is None, must, str(found_different), "give back in __setstate__ what __getstate__ took out")


def check_leaves_the_process_alone_when_built(specimen: Specimen) -> None:
    """Building it changes nothing that the process shares: random states, default dtype, grad mode, folder, environment."""
    with unchanged_globals("building it"):
        specimen.make()


def check_has_plain_state(specimen: Specimen) -> None:
    """Its state holds tensors, numbers, texts, lists and dictionaries only, so that a checkpoint loads safely."""
    state = specimen.make().state_dict()
    must = "A state is made of tensors, numbers, texts, lists and dictionaries"
    odd = _odd(state, "state")
    expect(odd is None, must, str(odd), "write it as such, and make of it what you need in load_state_dict")
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    found = difference(state, torch.load(file, weights_only=True), "state")
    expect(found is None, "A state comes back from a checkpoint as it was saved", str(found), "keep it plain")


def check_takes_back_its_state(specimen: Specimen) -> None:
    """A new one that takes over the state of another is equal to it."""
    if _unlike(specimen) is not None:
        return
    made, other = specimen.make(), specimen.make()
    other.load_state_dict(copy.deepcopy(made.state_dict()))
    found = _different(specimen, made, other)
    mend = "take in load_state_dict every key that state_dict gives, and nothing else"
    expect(found is None, "A component that takes over a state goes on as the one that gave it", str(found), mend)


def _unlike(specimen: Specimen) -> str | None:
    """Where two that are built alike differ; a check of its own tells."""
    return _different(specimen, specimen.make(), specimen.make())


def _different(specimen: Specimen, left: Any, right: Any) -> str | None:
    """Where two components differ in settings or state; a callback's state may tell the time."""
    if type(left) is not type(right):
        return f"one is a {type(left).__name__}, the other a {type(right).__name__}"
    found = difference(public(left), public(right), "attributes")
    if found is None and specimen.kind != "callback":
        found = difference(left.state_dict(), right.state_dict(), "state")
    return found


def _created(specimen: Specimen, text: str) -> Any:
    arguments = yaml.safe_load(text)
    if "class_path" in text:  # in Python a component is given as itself
        arguments = copy.deepcopy(dict(specimen.arguments))
    try:
        return create(specimen.kind, path_of(specimen.component), **arguments)
    except Exception as error:  # the constructor's
        return f"{type(error).__name__}: {error}"


def _parsed(specimen: Specimen, text: str) -> Any:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(KINDS[specimen.kind].base_class(), "part", required=True)
    written = {"class_path": path_of(specimen.component), "init_args": yaml.safe_load(text)}
    try:
        build = getattr(parser, "instantiate", None) or parser.instantiate_classes  # its name before jsonargparse 4.49
        return build(parser.parse_object({"part": written})).part
    except Exception as error:  # the parser's, or the constructor's
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _takes_all(component: type) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in constructor_parameters(component).values())


def _plain(value: Any) -> Any:
    """Tuples become lists, and components their class and arguments, as YAML has them."""
    if isinstance(value, Component):
        kept = {name: getattr(value, name) for name in constructor_parameters(type(value)) if hasattr(value, name)}
        return {"class_path": path_of(type(value)), "init_args": _plain(kept)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _odd(value: Any, where: str) -> str | None:
    """The first part of a state that is not plain, in words."""
    if value is None or type(value) in (bool, int, float, str) or isinstance(value, Tensor):
        return None
    if isinstance(value, Mapping):
        bad = next((key for key in value if type(key) not in (str, int)), None)
        if bad is not None:
            return f"{where} has the key {bad!r}"
        return next((odd for key in value if (odd := _odd(value[key], f"{where}[{key!r}]"))), None)
    if isinstance(value, list | tuple):
        return next((odd for index, each in enumerate(value) if (odd := _odd(each, f"{where}[{index}]"))), None)
    return f"{where} is of type {type(value).__name__}"


CHECKS = checks(
    check_loads_nothing,
    check_leaves_its_settings_alone,
    check_is_built_alike,
    check_survives_configuration,
    check_refuses_unknown_arguments,
    check_can_be_pickled,
    check_leaves_the_process_alone_when_built,
    check_has_plain_state,
    check_takes_back_its_state,
)
