"""Which paths of the machine a candidate sees: the interpreter, its library, and what the loader needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")


def interpreter() -> str:
    """The Python that runs candidates: this one, without its virtual environment."""
    return os.path.realpath(sys.executable)


@lru_cache
def visible_paths(further: Sequence[str] = ()) -> tuple[str, ...]:
    """Paths that exist and are shown read-only, none of them inside another.

    Args:
        further: More paths.
    """
    prefix = sys.base_prefix
    wanted = [*_SYSTEM, interpreter(), f"{prefix}/lib", f"{prefix}/lib64", *map(os.path.abspath, further)]
    present = [path for path in dict.fromkeys(wanted) if os.path.lexists(path)]
    return tuple(path for path in present if not any(_inside(path, other) for other in present))


def _inside(path: str, other: str) -> bool:
    return path != other and not os.path.islink(other) and Path(path).is_relative_to(other)


def package_folder() -> str:
    """The folder of this package: what the launcher is imported from."""
    return str(Path(__file__).resolve().parent.parent)
