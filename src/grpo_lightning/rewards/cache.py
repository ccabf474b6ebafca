"""Scores on disk, for calls that have been made before."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.arguments import requested_arguments
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.fingerprint import reward_fingerprint
from grpo_lightning.rewards.scores import FLOAT64_EPSILON, InvalidScore, RowResult, RowScore, parse_row

log = logging.getLogger(__name__)

BUSY_SECONDS = 5.0
NEVER_REPEATED = ("update", "log_probs")


def check_cache(entry: RewardEntry) -> None:
    """Check that calls of the entry can repeat, and that its settings can be told apart.

    Raises:
        ConfigError: If not.
    """
    if entry.cache is None:
        return
    required, optional, takes_all = requested_arguments(entry.reward)
    label = entry.reward.label
    if takes_all:
        raise ConfigError("cache", entry.cache, f"holds scores by arguments, and reward {label!r} takes all there are (**), "
                          "of which update and log_probs never repeat", "name the arguments, or leave cache out")  # fmt: skip
    for name in NEVER_REPEATED:
        if name in {*required, *optional} - set(entry.reward.columns()):
            raise ConfigError("cache", entry.cache, f"holds scores by arguments, and reward {label!r} asks for {name!r}, "
                              "which never repeats", "leave cache out, or score without it")  # fmt: skip
    reward_fingerprint(entry.reward)


class ScoreCache:
    """Scores by key in an SQLite file that several processes may share. Where the file fails, the run goes on without it.

    Args:
        path: The file; made with its folder if it does not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, rows TEXT) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            self._fail(error)

    def get(self, key: bytes, turns: Sequence[int]) -> list[RowResult] | None:
        """The scores of a call; ``None`` where they are not known.

        Args:
            key: What they are kept under.
            turns: Turns of each row.
        """
        with self._lock:
            if self._connection is None:
                return None
            try:
                found = self._connection.execute("SELECT rows FROM scores WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                self._fail(error)
                return None
        return None if found is None else _read(found[0], turns)

    def put(self, key: bytes, results: Sequence[RowResult]) -> None:
        """Keep the scores of a call in which nothing failed."""
        rows = [[each.total, each.turns, each.epsilon] for each in results if isinstance(each, RowScore)]
        with self._lock:
            if self._connection is None:
                return
            try:
                self._connection.execute("INSERT OR REPLACE INTO scores VALUES (?, ?)", (key, json.dumps(rows)))
            except sqlite3.Error as error:
                self._fail(error)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _fail(self, error: Exception) -> None:
        log.warning("cache %s of rewards cannot be used (%s); the run goes on without it", self.path, error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(text: str, turns: Sequence[int]) -> list[RowResult] | None:
    """Rows as they were kept; ``None`` where they are none of ours."""
    try:
        rows = json.loads(text)
        if len(rows) != len(turns):
            return None
        results: list[RowResult] = []
        for (total, by_turn, epsilon), count in zip(rows, turns, strict=True):
            parsed = parse_row(total if by_turn is None else by_turn, count)
            results.append(RowScore(parsed.total, parsed.turns, max(FLOAT64_EPSILON, float(epsilon))))
        return results
    except (ValueError, TypeError, InvalidScore):
        return None
