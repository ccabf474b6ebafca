"""Every wrong setting, found before anything is built for good: unknown, missing, of another type, out of range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_lightning.cli.resolve import Resolver
from grpo_lightning.cli.schema import Parameter, Shape, parameters
from grpo_lightning.cli.values import check_type, expected
from grpo_lightning.errors import ConfigError, GRPOError, near_matches
from grpo_lightning.registry import check_arguments, import_path


@dataclass(frozen=True)
class Checker:
    """Checks resolved settings by building every component once, so that its own checks run too."""

    resolver: Resolver

    def parameters(self, values: Any, owner: Any, path: str) -> dict[str, Any]:
        """The settings of ``owner`` as its constructor would get them.

        Raises:
            ConfigError: The first fault, named by its path.
        """
        known = parameters(owner)
        if not isinstance(values, Mapping):
            raise ConfigError(path, values, "is no group of settings", f"set any of {', '.join(known)}")
        for name, value in values.items():
            if name not in known:
                raise ConfigError(_join(path, name), value, "is no setting", near_matches(name, known))
        for name, parameter in known.items():
            if parameter.required and name not in values:
                raise ConfigError(_join(path, name), None, "is missing", f"set {_wanted(parameter)}")
        # The options of an entry's component are written beside the entry's own fields, so they are named like those.
        beside = getattr(owner, "component_field", None)
        return {
            name: self._beside(value, known, name, path)
            if name == beside
            else self.value(value, known[name], _join(path, name))
            for name, value in values.items()
        }

    def _beside(self, value: Any, known: Mapping[str, Parameter], name: str, path: str) -> Any:
        """An entry's component; what is no option of it may have been meant as a field of the entry."""
        try:
            return self.value(value, known[name], path)
        except ConfigError as error:
            wrong = error.setting.removeprefix(f"{path}.")
            if not error.reason.startswith("is no option of") or "." in wrong:
                raise
            options = [*parameters(import_path(value["class_path"])), *(field for field in known if field != name)]
            raise ConfigError(error.setting, error.value, error.reason, near_matches(wrong, options)) from None

    def value(self, value: Any, parameter: Parameter, path: str) -> Any:
        """One setting, built if it is a component."""
        if value is None and parameter.nullable:
            return None
        return self._shaped(value, parameter.shapes, path)

    def _shaped(self, value: Any, shapes: tuple[Shape, ...], path: str) -> Any:
        shape = self.resolver.choose(value, shapes)
        if shape is None:
            raise ConfigError(path, value, "has the wrong form", f"set {' or '.join(_form(each) for each in shapes)}")
        if shape.form == "value":
            return check_type(path, value, shape.hint)
        if shape.form == "slot":
            return self._component(value, path)
        if shape.form == "group":
            return self._built(shape.cls, self.parameters(value, shape.cls, path), path)
        if shape.form == "list":
            return [self._shaped(item, shape.of, f"{path}.{index}") for index, item in enumerate(value)]
        if shape.form == "names":
            return {key: self._shaped(item, shape.of, f"{path}.{key}") for key, item in value.items()}
        return self._factory(value, path)

    def _component(self, value: Mapping[str, Any], path: str) -> Any:
        component = import_path(value["class_path"])
        arguments = value["init_args"]
        check_arguments(component, arguments, path)
        known = parameters(component)
        built = {
            name: self.value(item, known[name], _join(path, name)) if name in known else item
            for name, item in arguments.items()
        }
        return self._built(component, built, path)

    def _factory(self, value: Mapping[str, Any], path: str) -> Any:
        made = import_path(value["class_path"])
        known = dict(list(parameters(made).items())[1:])  # the first comes later: parameters, or an optimizer
        for name, item in value["init_args"].items():
            if name not in known:
                reason = f"is no option of {made.__name__!r}"
                raise ConfigError(_join(path, name), item, reason, near_matches(name, known))
            self.value(item, known[name], _join(path, name))
        for name, parameter in known.items():
            if parameter.required and name not in value["init_args"]:
                raise ConfigError(_join(path, name), None, f"is missing: {made.__name__!r} needs it", "set it")
        return made

    @staticmethod
    def _built(cls: Any, arguments: dict[str, Any], path: str) -> Any:
        try:
            return cls(**arguments)
        except ConfigError as error:
            raise error.under(path) from None
        except GRPOError:
            raise
        except Exception as error:  # a stranger's constructor may raise anything
            reason = f"cannot be built ({type(error).__name__}: {error})"
            raise ConfigError(path, getattr(cls, "name", cls.__name__), reason, "check its options") from error


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wanted(parameter: Parameter) -> str:
    return " or ".join(dict.fromkeys(_form(shape) for shape in parameter.shapes))


def _form(shape: Shape) -> str:
    if shape.form == "value":
        return expected(shape.hint)
    if shape.form == "slot":
        return f"a component of the kind {shape.kind}"
    if shape.form == "list":
        return "a list"
    if shape.form == "names":
        return "a mapping of names"
    return "a name or a mapping" if shape.component_field or shape.form == "factory" else "a mapping"
