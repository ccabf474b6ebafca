"""Rows of data files, with every fault found by line."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from grpo_lightning.errors import DataError, near_matches

INT64 = range(-(2**63), 2**63)


def read_file(path: Path) -> Any:
    """A data set of the library ``datasets`` with the rows of a file, kept in a folder that goes when the process ends.

    Texts stay as they are written: nothing that looks like a date or a number is turned into one. In CSV every column
    is text, and an empty cell is ``None``. Whole numbers of more than 64 bits become text.

    Raises:
        DataError: If the file is missing, empty or malformed, naming the line where there is one.
    """
    check_path(path)
    from datasets import Dataset

    folder = tempfile.mkdtemp(dir=_folder())
    with _quiet():
        try:
            if path.suffix == ".parquet":
                return Dataset.from_parquet(str(path), cache_dir=folder)
            features = _features(path)
            return Dataset.from_generator(
                _complete, features=features, cache_dir=folder, gen_kwargs={"path": path, "columns": tuple(features)}
            )
        except DataError:
            raise
        except Exception as error:
            cause = error.__cause__ or error
            reason = f"cannot be read ({type(cause).__name__}: {' '.join(str(cause).split())})"
            raise DataError("path", str(path), reason, "check that the file is what its ending says") from error


def check_path(path: Path) -> None:
    """Check that there is a file of a known form at ``path``.

    Raises:
        DataError: If there is not.
    """
    if path.is_dir():
        raise DataError("path", str(path), "is a folder", "name a file in it")
    if not path.is_file():
        beside = [each.name for each in path.parent.iterdir() if each.is_file()] if path.parent.is_dir() else []
        close = near_matches(path.name, beside) if beside else ""
        fix = close if close.startswith("did you mean") else f"paths are relative to {Path.cwd()}"
        raise DataError("path", str(path), "does not exist", fix)
    if path.suffix not in (*_READERS, ".parquet"):
        raise DataError("path", str(path), f"ends in {path.suffix!r}", "give a .jsonl, .json, .csv or .parquet file")
    if path.stat().st_size == 0:
        raise DataError("path", str(path), "is empty", "give a file with at least one row")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON lines, JSON or CSV file, one at a time.

    Raises:
        DataError: At the first malformed line, naming it.
    """
    try:
        yield from _READERS[path.suffix](path)
    except UnicodeDecodeError as error:
        raise DataError("path", str(path), f"is no UTF-8 text ({error.reason})", "save it as UTF-8") from error


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError as error:
                    raise _malformed(path, number, error.colno, error.msg) from None
                yield _object(path, f"line {number}", row)


def _json(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text(encoding="utf-8-sig")
    if not text.lstrip().startswith("["):
        yield from _json_lines(path)
        return
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise _malformed(path, error.lineno, error.colno, error.msg) from None
    for number, row in enumerate(rows, start=1):
        yield _object(path, f"row {number}", row)


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as lines, _any_field_size():
        reader = csv.reader(lines, strict=True)
        try:
            names = next(reader, [])
            if not all(names) or len(set(names)) != len(names):
                raise DataError(
                    "path", str(path), "line 1: the header has an empty or repeated name", "mend the header"
                )
            for cells in reader:
                if cells and len(cells) != len(names):
                    reason = f"line {reader.line_num}: {len(cells)} cells, but the header names {len(names)} columns"
                    raise DataError("path", str(path), reason, "mend the line (quote cells that hold commas)")
                if cells:
                    yield {name: cell or None for name, cell in zip(names, cells, strict=True)}
        except csv.Error as error:
            raise DataError("path", str(path), f"line {reader.line_num}: {error}", "mend the line") from None


_READERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".csv": _csv,
}


def _malformed(path: Path, line: int, column: int, message: str) -> DataError:
    return DataError("path", str(path), f"line {line}, column {column}: {message}", "mend that line; each row is JSON")


def _object(path: Path, where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        reason = f"{where}: a row of type {type(row).__name__}, not an object"
        raise DataError("path", str(path), reason, 'write rows as {"prompt": ..., "answer": ...}')
    return row


def _features(path: Path) -> Any:
    """Types of the columns, from all rows: a column of mixed or nested values is kept as JSON."""
    from datasets import Features, Json, Value

    seen: dict[str, set[str]] = {}
    for row in read_rows(path):
        for name, value in row.items():
            kinds = seen.setdefault(name, set())
            if value is not None:
                kinds.add("big" if type(value) is int and value not in INT64 else type(value).__name__)
    known = {"str": "string", "int": "int64", "float": "float64", "bool": "bool"}
    features: dict[str, Any] = {}
    for name, kinds in seen.items():
        only = next(iter(kinds)) if len(kinds) == 1 else "str" if not kinds else "mixed"
        features[name] = Value(known[only]) if only in known else Json()
    if not features:
        raise DataError("path", str(path), "has no rows", "give a file with at least one row")
    return Features(features)


def _complete(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for row in read_rows(path):
        yield {name: row.get(name) for name in columns}


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="grpo_lightning_data_", ignore_cleanup_errors=True)


def _folder() -> str:
    return _directory().name


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


@contextmanager
def _any_field_size() -> Iterator[None]:
    """The csv module refuses cells above 128 KiB unless told otherwise, for the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)
