"""Short names to full paths: what a person writes becomes what jsonargparse takes, guided by type hints alone."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_lightning.cli.factories import factory_class
from grpo_lightning.cli.merge import deep_merge
from grpo_lightning.cli.schema import Form, Parameter, Shape, parameters
from grpo_lightning.errors import ConfigError
from grpo_lightning.registry import Registry

FULL = {"class_path", "init_args"}
IMPLIED: dict[str, dict[str, str]] = {"prompts": {"path": "file", "dataset": "hub"}}
"""By kind: options that say by themselves which component is meant."""


@dataclass(frozen=True)
class Resolver:
    """Resolves the settings of a class into full paths; the result resolves to itself."""

    registry: Registry

    def parameters(self, values: Mapping[str, Any], owner: Any, path: str) -> dict[str, Any]:
        """The settings of ``owner``: every component in full, those that are its defaults included.

        Unknown settings are kept, for the check to name.

        Raises:
            ConfigError: If a component is unknown or written in no form that is known.
        """
        known = parameters(owner)
        resolved = {
            name: self.value(value, known[name], f"{path}.{name}") if name in known else value
            for name, value in values.items()
        }
        for name, parameter in known.items():
            if name not in values and parameter.shape("slot") and isinstance(parameter.default, str):
                resolved[name] = self.value(parameter.default, parameter, f"{path}.{name}")
        return resolved

    def value(self, value: Any, parameter: Parameter, path: str) -> Any:
        """One setting."""
        default = parameter.default if isinstance(parameter.default, str) else None
        return self._shaped(value, parameter.shapes, path, default)

    def _shaped(self, value: Any, shapes: tuple[Shape, ...], path: str, default: str | None) -> Any:
        shape = self.choose(value, shapes)
        if shape is None or shape.form == "value":
            return value
        if shape.form == "slot":
            return self._slot(value, shape.kind, path, default)
        if shape.form == "group":
            return self._group(value, shape, path)
        if shape.form == "factory":
            return self._factory(value, shape, path, default)
        if shape.form == "list":
            return [self._shaped(item, shape.of, f"{path}.{index}", None) for index, item in enumerate(value)]
        self._check_names(value, path)
        # null takes out what a configuration below had named.
        kept = {name: item for name, item in value.items() if item is not None}
        return {name: self._shaped(item, shape.of, f"{path}.{name}", None) for name, item in kept.items()}

    def choose(self, value: Any, shapes: tuple[Shape, ...]) -> Shape | None:
        """The shape in which ``value`` is written; ``None`` where it has none of them, or is ``null``."""
        by_form = {shape.form: shape for shape in shapes}
        order: tuple[Form, ...] = ("value",)
        if isinstance(value, Mapping):
            slot, names = by_form.get("slot"), by_form.get("names")
            if slot and names:
                return names if self._is_names(value, slot.kind) else slot
            order = ("slot", "group", "factory", "names", "value")
        elif isinstance(value, list):
            order = ("list", "value")
        elif isinstance(value, str):
            order = ("slot", "factory", "group", "value") if _sugared(by_form) else ("slot", "factory", "value")
        return next((by_form[form] for form in order if form in by_form and value is not None), None)

    def _is_names(self, value: Mapping[str, Any], kind: str) -> bool:
        if not value or not all(isinstance(item, Mapping | str | None) for item in value.values()):
            return False
        options = set().union(*(self._options(kind, name) for name in self.registry.entries[kind]))
        return not (set(value) & (options | FULL | {"name"} | set(IMPLIED.get(kind, {}))))

    def _options(self, kind: str, name: str) -> set[str]:
        try:
            return set(parameters(self.registry.resolve(kind, name)))
        except ConfigError:  # a plugin that cannot be imported, which is told where it is used
            return set()

    @staticmethod
    def _check_names(value: Mapping[str, Any], path: str) -> None:
        own = {"name", "class_path", *(option for implied in IMPLIED.values() for option in implied)}
        for name, item in value.items():
            if name in own and isinstance(item, str):
                raise ConfigError(path, dict(value), "is one component where several with names of your choice go",
                                  f"write {path}.SOME_NAME.{name}")  # fmt: skip

    def _slot(self, value: Any, kind: str, path: str, default: str | None) -> dict[str, Any]:
        written = _written(value)
        if "name" in written and "class_path" in written:
            raise ConfigError(path, value, "has both name and class_path", "leave one of them out")
        arguments = dict(written.pop("init_args", None) or {})
        name = written.pop("class_path", None) or written.pop("name", None)
        arguments = deep_merge(arguments, written)
        if name is None:
            implied = (component for option, component in IMPLIED.get(kind, {}).items() if option in arguments)
            name = next(implied, default)
        if not isinstance(name, str):
            known = ", ".join(sorted(self.registry.entries[kind]))
            raise ConfigError(path, value, f"names no component of the kind {kind}", f"add name: one of {known}")
        found, name = self._find(kind, name, path)
        if not inspect.isclass(found):  # a function, which only rewards may be
            found, arguments = self.registry.resolve("reward", "function", path), {"function": name, **arguments}
        resolved = self.parameters(arguments, found, path)
        return {"class_path": f"{found.__module__}.{found.__qualname__}", "init_args": resolved}

    def _find(self, kind: str, name: str, path: str) -> tuple[Any, str]:
        if kind == "callback" and self.registry.find(kind, name) is None and "." not in name:
            from lightning.pytorch import callbacks

            if name in callbacks.__all__:
                name = f"lightning.pytorch.callbacks.{name}"
        return self.registry.resolve(kind, name, path), name

    def _group(self, value: Any, shape: Shape, path: str) -> dict[str, Any]:
        field = shape.component_field
        if field is None:
            return self.parameters(value, shape.cls, path)
        entry = {field: value} if isinstance(value, str) else _split(value, field, set(parameters(shape.cls)))
        component = parameters(shape.cls)[field]
        default = component.default if isinstance(component.default, str) else None
        rest = {key: item for key, item in entry.items() if key != field}
        # The component is named by the entry's own path: that is where a person writes its options.
        return {
            field: self._shaped(entry[field], component.shapes, path, default),
            **{k: v for k, v in self.parameters(rest, shape.cls, path).items() if k != field},
        }

    def _factory(self, value: Any, shape: Shape, path: str, default: str | None) -> dict[str, Any]:
        written = _written(value)
        arguments = dict(written.pop("init_args", None) or {})
        name = written.pop("class_path", None) or written.pop("name", None) or default
        class_path = factory_class(name, shape.returns, path, value)
        return {"class_path": class_path, "init_args": deep_merge(arguments, written)}


def _sugared(by_form: Mapping[Form, Shape]) -> bool:
    return "group" in by_form and by_form["group"].component_field is not None


def _split(value: Mapping[str, Any], field: str, fields: set[str]) -> dict[str, Any]:
    """An entry as its own fields and its component, which gets every other key.

    ``name`` is a field of the entry only where the component stands in its own field.
    """
    own = fields if field in value else fields - {"name"}
    entry = {key: item for key, item in value.items() if key in own}
    extras = {key: item for key, item in value.items() if key not in own}
    if field not in value:
        entry[field] = extras
    elif extras:
        entry[field] = deep_merge({"it": value[field]}, {"it": extras})["it"]
    return entry


def _written(value: Any) -> dict[str, Any]:
    return {"name": value} if isinstance(value, str) else dict(value)
