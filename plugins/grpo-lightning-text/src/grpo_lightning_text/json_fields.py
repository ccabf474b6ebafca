"""Fields of a JSON answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import ConfigError, DataError, require, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning_text.json_text import first_object, shallow


class JSONFields(Reward):
    """``sum_k w_k [field k is right] / sum_k w_k``: the share of an expected object's fields in the completion's first one.

    The answer is the first JSON object in the completion, whatever stands around it. Without one, or with one that does not
    fit ``schema``, the score is 0; with a schema and no column it is then 1. A field that is missing is wrong, and one that
    nobody asked for does not matter. NaN and the infinities are no JSON.

    Values are right as follows: a number where ``|x - y| <= max(absolute, relative |y|)``, y the expected one; a text where
    it is equal, apart from outer white space; ``true``, ``false`` and ``null`` where they are the same; lists and objects
    where they have as many items, each right. A number that is written as text (``"7"`` for 7) is wrong, and ``true`` is not 1.

    Args:
        column: Column of the expected object, as such or as JSON text; the reward abstains where it is ``None``. ``null``:
            only the schema counts.
        weights: Weight by field; only these count. By default every field of the expected object counts 1.
        schema: JSON Schema (draft 2020-12) that the answer must fit. References to other documents are not fetched.
        absolute: Largest absolute difference of a number that is still right.
        relative: The same, relative to the expected number.
        ignore_case: Take capital and small letters in texts as equal.

    Example:
        >>> reward = JSONFields(relative=0.1)
        >>> reward.score(completions=['{"item": "tea", "price": 3.2}', '{"item": "tea"}', "tea"],
        ...              answer=[{"item": "tea", "price": 3}] * 3)
        [1.0, 0.5, 0.0]
    """

    name = "json_fields"
    example_columns: ClassVar[dict[str, list[Any]]] = {
        "answer": [{"item": "tea", "price": 3}, '{"item": "soup"}', None]
    }

    def __init__(
        self,
        *,
        column: str | None = "answer",
        weights: dict[str, float] | None = None,
        schema: dict[str, Any] | None = None,
        absolute: float = 0.0,
        relative: float = 0.0,
        ignore_case: bool = False,
    ) -> None:
        require(
            column is not None or schema is not None,
            "column",
            column,
            "leaves nothing to check",
            "name one, or set schema",
        )
        require(weights is None or bool(weights), "weights", weights, "has no field", "name some, or leave it out")
        for field, weight in (weights or {}).items():
            require_range(f"weights.{field}", weight, low=0, low_open=True, high_open=True)
        require_range("absolute", absolute, low=0, high_open=True)
        require_range("relative", relative, low=0, high_open=True)
        if schema is not None:
            _check_schema(schema)
        self.column, self.weights, self.schema = column, None if weights is None else dict(weights), schema
        self.absolute, self.relative, self.ignore_case = absolute, relative, ignore_case

    @override
    def columns(self) -> list[str]:
        return [] if self.column is None else [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row, in [0, 1], or ``None`` where nothing is expected.

        Raises:
            DataError: If the column holds no object, or one without a field of ``weights``.
        """
        validator = None if self.schema is None else _validator(self.schema)
        expected = [{}] * len(completions) if self.column is None else columns[self.column]
        return [
            None if each is None else self._score(completion, self._object(each), validator)
            for completion, each in zip(completions, expected, strict=True)
        ]

    def _score(self, completion: str, expected: Mapping[str, Any], validator: Any) -> float:
        found = first_object(completion)
        if found is None or (validator is not None and not validator.is_valid(found)):
            return 0.0
        weights = dict.fromkeys(expected, 1.0) if self.weights is None else self.weights
        if self.column is None or not weights:
            return 1.0
        right = sum(
            weight for field, weight in weights.items() if field in found and self._same(found[field], expected[field])
        )
        return right / sum(weights.values())

    def _object(self, value: Any) -> Mapping[str, Any]:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        if not isinstance(value, dict) or not shallow(value):
            raise DataError("column", value, f"in column {self.column!r} is no JSON object", "give an object")
        missing = [field for field in self.weights or {} if field not in value and self.column is not None]
        if missing:
            raise DataError(
                "column", value, f"in column {self.column!r} lacks {missing[0]!r}", "add it, or give it no weight"
            )
        return value

    def _same(self, found: Any, right: Any) -> bool:
        if _is_number(found) and _is_number(right):
            return self._close(found, right)
        if isinstance(found, str) and isinstance(right, str):
            return self._text(found) == self._text(right)
        if isinstance(found, list) and isinstance(right, list):
            return len(found) == len(right) and all(map(self._same, found, right))
        if isinstance(found, dict) and isinstance(right, dict):
            return found.keys() == right.keys() and all(self._same(found[key], right[key]) for key in right)
        return type(found) is type(right) and bool(found == right)

    def _close(self, found: float, right: float) -> bool:
        if found == right:
            return True
        try:
            return abs(found - right) <= max(self.absolute, self.relative * abs(right))
        except OverflowError:  # a whole number beyond the floats
            return False

    def _text(self, text: str) -> str:
        text = text.strip()
        return text.casefold() if self.ignore_case else text


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or math.isfinite(value))
    )


def _check_schema(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its top"
        raise ConfigError("schema", schema, f"is no JSON Schema ({error.message}, at {where})", "mend it") from None


def _validator(schema: dict[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # With a registry of its own it does not fetch what $ref names.
    return Draft202012Validator(schema, registry=Registry())
