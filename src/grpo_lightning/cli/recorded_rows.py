"""Recorded completions: a JSONL file as rows that rewards can score."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.base import RESERVED_ARGUMENTS
from grpo_lightning.types import Episode, FinishReason, Prompt, Turn

OWN = ("prompt", "completion", "completions", "turns", "finish", "completion_ids")
"""Keys that are no columns of the data."""
PREDICTION = {"dataset", "index", "sample", "completion", "correct", "components", "log_prob"}
"""Keys by which a row that ``predict`` wrote is known. Its other keys are results, and no columns either."""

Columns = Callable[[int, Mapping[str, Any]], Mapping[str, Any]]
"""From line and prediction to the columns of the prompt that it belongs to."""


@dataclass(frozen=True)
class Recording:
    """Rows of a file, whole groups one after another."""

    path: str
    episodes: list[Episode]
    lines: list[int]
    """Line of the file of each row."""
    has_ids: bool
    """Whether every row has its token ids."""
    has_lengths: bool
    """Whether it is known of every row how many steps it has."""

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len({episode.group for episode in self.episodes})


@dataclass
class _Group:
    """Rows that answer one prompt."""

    prompt: Prompt
    rows: list[tuple[int, list[Turn]]] = field(default_factory=list)


def read_recording(path: str, limit: int | None, columns: Columns) -> Recording:
    """Read recorded completions.

    Rows are of one group if they stand in one list, come from one prompt of ``predict``, or have equal prompts (without a
    prompt: an equal ``index``).

    Args:
        path: The file: one JSON object a line, with ``completion`` or ``completions`` (text, or a list of texts).
        limit: Read the first lines only.
        columns: Looks up the columns of a row that ``predict`` wrote.

    Raises:
        ConfigError: Naming the line that is wrong.
    """
    groups: dict[Any, _Group] = {}
    has_ids = has_lengths = True
    for line, row in _lines(path, limit):
        key, prompt, turns = _read_row(path, line, row, columns)
        groups.setdefault(key, _Group(prompt)).rows += [(line, each) for each in turns]
        has_ids = has_ids and "completion_ids" in row and len(turns[0]) == 1
        has_lengths = has_lengths and (has_ids or _steps(row) is not None)
    episodes, lines = [], []
    for number, group in enumerate(groups.values()):
        for member, (line, turns_of_row) in enumerate(group.rows):
            episodes.append(Episode(group.prompt, number, member, turns_of_row))
            lines.append(line)
    return Recording(path, episodes, lines, has_ids, has_lengths)


def _lines(path: str, limit: int | None) -> list[tuple[int, dict[str, Any]]]:
    try:
        texts = Path(path).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ConfigError("data", path, "does not exist", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("data", path, f"cannot be read ({error})", "give a JSONL file in UTF-8") from None
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, text in enumerate(texts, 1):
        if limit is not None and len(rows) == limit:
            break
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            place = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            reason = f"is no JSON in line {number}{place} ({getattr(error, 'msg', error)})"
            raise ConfigError("data", path, reason, "mend that line") from None
        if not isinstance(row, dict):
            raise fault(path, number, "is no JSON object", "write {...} with a completion in it")
        rows.append((number, row))
    if not rows:
        raise ConfigError("data", path, "is empty", "give one JSON object a line, with a completion in it")
    return rows


def fault(path: str, line: int, what: str, fix: str) -> ConfigError:
    """What is wrong with a line."""
    return ConfigError("data", f"{path}:{line}", what, fix)


def _read_row(path: str, line: int, row: dict[str, Any], columns: Columns) -> tuple[Any, Prompt, list[list[Turn]]]:
    """Key of the group, its prompt, and the turns of each completion."""
    texts, listed = _completions(path, line, row)
    prompt, dataset = row.get("prompt", ""), str(row.get("dataset", "rows"))
    if not (isinstance(prompt, str) or (isinstance(prompt, list) and all(isinstance(each, dict) for each in prompt))):
        raise fault(path, line, "has a prompt that is no text and no list of messages", "mend that line")
    predicted = set(row) >= PREDICTION
    if predicted:
        known = columns(line, row)
    else:
        known = {name: value for name, value in row.items() if name not in OWN}
        taken = sorted(set(known) & set(RESERVED_ARGUMENTS))
        if taken:
            raise fault(path, line, f"has the column {taken[0]!r}, a name that rewards get something else under",
                        "rename it")  # fmt: skip
    index = row.get("index")
    if listed:
        key: Any = ("line", line)
    elif predicted or ("prompt" not in row and index is not None):
        key = ("index", dataset, json.dumps(index))
    else:
        key = ("prompt", dataset, json.dumps(prompt, sort_keys=True)) if "prompt" in row else ("line", line)
    turns = _turns(path, line, row, texts, listed)
    return key, Prompt(dataset, index if isinstance(index, int) else line, prompt, known), turns


def _completions(path: str, line: int, row: Mapping[str, Any]) -> tuple[list[str], bool]:
    given = [name for name in ("completion", "completions") if name in row]
    if len(given) != 1:
        what = "holds both completion and completions" if given else "holds no completion"
        raise fault(path, line, what, "give one of completion and completions: text, or a list of texts")
    found = row[given[0]]
    texts = found if isinstance(found, list) else [found]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise fault(path, line, f"has {given[0]} {found!r}, which is no text and no list of texts", "mend that line")
    return texts, isinstance(found, list)


def _turns(path: str, line: int, row: Mapping[str, Any], texts: list[str], listed: bool) -> list[list[Turn]]:
    finish = str(row.get("finish", "stop")).upper()
    if finish not in FinishReason.__members__:
        raise fault(path, line, f"has finish {row['finish']!r}", "set stop or length")
    reason, ids, written = FinishReason[finish], row.get("completion_ids"), row.get("turns")
    if written is not None and not listed:
        if not (isinstance(written, list) and written and all(isinstance(text, str) for text in written)):
            raise fault(path, line, f"has turns {written!r}, which are no list of texts", "mend that line")
        if len(written) > 1:
            return [[_turn(text, None, reason) for text in written]]
    if ids is None:
        steps = _steps(row)
        return [[_turn(text, None if steps is None else [0] * steps, reason)] for text in texts]
    each = ids if listed else [ids]
    if len(each) != len(texts) or not all(_are_ids(one) for one in each):
        raise fault(path, line, "has completion_ids that do not belong to its completions",
                    "give a list of whole numbers for each completion")  # fmt: skip
    return [[_turn(text, one, reason)] for text, one in zip(texts, each, strict=True)]


def _steps(row: Mapping[str, Any]) -> int | None:
    """Steps of a completion of one turn, which ``predict`` writes down."""
    steps = row.get("length")
    known = set(row) >= PREDICTION and type(steps) is int and len(row.get("turns") or [""]) == 1
    return steps if known else None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int for each in value)


def _turn(text: str, ids: Sequence[int] | None, finish: FinishReason) -> Turn:
    # Where nothing is known a character counts as a step, which is said where a reward asks for lengths.
    return Turn(list(ids) if ids is not None else [0] * len(text), text, finish)
