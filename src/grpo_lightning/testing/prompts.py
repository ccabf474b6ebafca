"""Checks of sources of prompts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.prompts.messages import fault
from grpo_lightning.rewards.base import RESERVED_ARGUMENTS
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.global_state import unchanged_globals

LOOKED_AT = 50
"""Rows that are looked at from the start of a source, and from its end."""


def check_has_rows(specimen: Specimen) -> None:
    """``len`` counts the rows, of which there is at least one, and every one of them can be had by its index."""
    source = _loaded(specimen)
    size = len(source)
    expect(size > 0, "A source has rows, or load raises a DataError", "it has none", "raise DataError in load")
    for index in _indices(source):
        _row(source, index)


def check_ends_where_it_says(specimen: Specimen) -> None:
    """The index ``len`` raises IndexError, by which a loop over the rows ends."""
    source = _loaded(specimen)
    try:
        row = source[len(source)]
    except IndexError:
        return
    except Exception as error:  # another one would not end a loop
        expect(
            False,
            "An index beyond the last row raises IndexError",
            f"{type(error).__name__}: {error}",
            "raise IndexError",
        )
    expect(
        False,
        "An index beyond the last row raises IndexError",
        f"row {row!r}"[:100],
        "raise IndexError, do not begin again",
    )


def check_gives_its_columns(specimen: Specimen) -> None:
    """``columns`` names what every row has, ``prompt`` included."""
    source = _loaded(specimen)
    names = source.columns
    expect(isinstance(names, list) and "prompt" in names, "columns is a list of names with prompt among them", repr(names),
           "return ['prompt', ...]")  # fmt: skip
    for index, row in _rows(source):
        expect(set(row) == set(names), "Every row has the columns that are named, and no others",
               f"row {index} has {sorted(row)}, columns are {sorted(names)}", "give None where a row lacks one")  # fmt: skip


def check_uses_no_reserved_name(specimen: Specimen) -> None:
    """No column has a name under which rewards get something else: ``completions``, ``groups``, ..."""
    taken = sorted(set(_loaded(specimen).columns) & set(RESERVED_ARGUMENTS))
    expect(
        not taken,
        "A column has a name of its own",
        f"{', '.join(taken)} is what rewards get something else under",
        "rename it",
    )


def check_gives_prompts(specimen: Specimen) -> None:
    """Every ``prompt`` is a text that is not empty, or a list of messages with ``role`` and ``content``."""
    for index, row in _rows(_loaded(specimen)):
        reason = fault(row.get("prompt"))
        expect("prompt" not in row or reason is None, "A prompt is a text, or a list of chat messages",
               f"row {index}: {reason}",
               "find such rows in load, and raise a DataError that names them")  # fmt: skip


def check_gives_the_same_row_again(specimen: Specimen) -> None:
    """A row is the same at every look, and in another source built alike: rows are addressed, not drawn."""
    found = _unsteady(specimen)
    expect(found is None, "A row is decided by its index and the arguments", str(found),
           "make all rows up in load, from a seed among the arguments")  # fmt: skip


def check_can_be_loaded_again(specimen: Specimen) -> None:
    """``load`` called twice leaves the rows as they were."""
    if _unsteady(specimen) is not None:
        return
    source = _loaded(specimen)
    before = (len(source), list(_rows(source)))
    source.load()
    found = difference(before, (len(source), list(_rows(source))), "(len, rows)")
    expect(found is None, "Loading again changes nothing", str(found), "set the rows in load, do not append to them")


def check_gives_rows_away(specimen: Specimen) -> None:
    """A row that is changed by who got it, in its lists and messages too, is as it was at the next look."""
    if _unsteady(specimen) is not None:
        return
    source = _loaded(specimen)
    for index, row in _rows(source):
        before = copy.deepcopy(row)
        _spoil(row)
        found = difference(before, source[index], "row")
        expect(found is None, "A row belongs to who asked for it", f"{index}: {found} after a change to the last one",
               "return a deep copy: copy.deepcopy(self._rows[index])")  # fmt: skip


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """Loading and reading change nothing that the process shares: random states, default dtype, grad mode, folder, ..."""
    source = specimen.make()
    with unchanged_globals("loading"):
        source.load()
        list(_rows(source))


def _loaded(specimen: Specimen) -> PromptSource:
    source: PromptSource = specimen.make()
    source.load()
    return source


def _indices(source: PromptSource) -> list[int]:
    size = len(source)
    return [*range(min(size, LOOKED_AT)), *range(max(LOOKED_AT, size - LOOKED_AT), size)]


def _rows(source: PromptSource) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows that are looked at, but for those that cannot be had, which a check of its own tells."""
    for index in _indices(source):
        try:
            row = source[index]
        except LookupError:
            continue
        if isinstance(row, dict):
            yield index, row


def _unsteady(specimen: Specimen) -> str | None:
    """Where rows differ at two looks, or in two sources that are built alike."""
    source, other = _loaded(specimen), _loaded(specimen)
    for index, row in _rows(source):
        found = difference(row, source[index], f"row {index}, at two looks: it")
        found = found or difference(row, other[index], f"row {index} of two sources: it")
        if found is not None:
            return found
    return None


def _row(source: PromptSource, index: int) -> dict[str, Any]:
    try:
        row = source[index]
    except LookupError as error:
        expect(
            False,
            "Every index below len gives a row",
            f"index {index}: {type(error).__name__}: {error}",
            "count the rows",
        )
    expect(isinstance(row, dict), "A row is a dictionary of columns", f"{row!r}"[:100], "return {'prompt': ..., ...}")
    return row


def _spoil(value: Any) -> None:
    """Change everything in it that can be changed."""
    if isinstance(value, dict):
        for each in value.values():
            _spoil(each)
        value["spoilt"] = True
    elif isinstance(value, list):
        for each in value:
            _spoil(each)
        value.append("spoilt")


CHECKS = checks(
    check_has_rows,
    check_ends_where_it_says,
    check_gives_its_columns,
    check_uses_no_reserved_name,
    check_gives_prompts,
    check_gives_the_same_row_again,
    check_can_be_loaded_again,
    check_gives_rows_away,
    check_leaves_the_process_alone,
)
