"""Reads back what an offline wandb run has written.

``run-<id>.wandb`` is a LevelDB log: a header of seven bytes, and blocks of 32 KiB (the header counts towards the first)
with records that may be split over blocks; each record is a protobuf message ``Record``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from wandb.proto import wandb_internal_pb2

BLOCK = 32 * 1024
HEADER = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass
class OfflineRun:
    """An offline run, as its file tells it."""

    folder: Path
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    """Logged rows, in order."""
    summary: dict[str, Any] = field(default_factory=dict)
    metrics: list[str] = field(default_factory=list)
    """Names and patterns given to ``define_metric``."""

    def steps(self, key: str) -> dict[int, Any]:
        """The values of a key by the logger's step."""
        return {row["trainer/global_step"]: row[key] for row in self.history if key in row}

    def table(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a table that a history row refers to."""
        stored = json.loads((self.folder / "files" / value["path"]).read_text())
        return [dict(zip(stored["columns"], row, strict=True)) for row in stored["data"]]


def read_offline_run(save_dir: Path) -> OfflineRun:
    """The only offline run under ``save_dir``; it must be finished."""
    (path,) = save_dir.glob("**/offline-run-*/run-*.wandb")
    run = OfflineRun(path.parent)
    for payload in _payloads(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(payload)
        if record.HasField("run"):
            run.config |= _values(record.run.config.update)
        elif record.HasField("config"):
            run.config |= _values(record.config.update)
        elif record.HasField("history"):
            run.history.append(_values(record.history.item))
        elif record.HasField("summary"):
            run.summary |= _values(record.summary.update)
        elif record.HasField("metric"):
            run.metrics.append(record.metric.name or record.metric.glob_name)
    return run


def _values(items: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in items:
        *path, last = item.nested_key or [item.key]
        place = values
        for key in path:
            place = place.setdefault(key, {})
        place[last] = json.loads(item.value_json)
    return values


def _payloads(data: bytes) -> Iterator[bytes]:
    assert data[: len(HEADER)] == HEADER, f"unknown header {data[: len(HEADER)]!r}"
    position, parts = len(HEADER), b""
    while position + 7 <= len(data):
        left = BLOCK - position % BLOCK
        if left < 7:  # no room for a record's header: the rest of the block is padding
            position += left
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, position)
        payload = data[position + 7 : position + 7 + length]
        assert crc32(bytes([kind]) + payload) == checksum, f"damaged record at byte {position}"
        parts = payload if kind in (FULL, FIRST) else parts + payload
        if kind in (FULL, LAST):
            yield parts
        position += 7 + length
