"""YAML to values: decimals as people write them, a key twice is a fault, and faults name file and line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from grpo_lightning.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """The safe loader, where ``1e-6`` is a number and a repeated key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# PyYAML follows YAML 1.1, where a number with an exponent needs a point and a signed exponent.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse_value(text: str) -> Any:
    """The value of one word on the command line: YAML, or the text itself where it is none."""
    if not text:
        return text
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return text


def load_file(path: Path) -> dict[str, Any]:
    """The mapping that a configuration file holds.

    Raises:
        ConfigError: If it cannot be read or is no YAML mapping, naming file and line.
    """
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError("config", str(path), "does not exist", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("config", str(path), f"cannot be read ({error})", "give a YAML file") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = f"is malformed at line {line}: {error.problem}"
        raise ConfigError("config", str(path), reason, "mend that line") from None
    except yaml.YAMLError as error:
        raise ConfigError("config", str(path), f"is no YAML ({error})", "give a YAML file") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise ConfigError("config", str(path), "is no mapping of settings", "start from a file in configs/")
    return loaded
