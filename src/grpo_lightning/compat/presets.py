"""The presets by name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from grpo_lightning.compat.nemo_rl import NEMO_RL
from grpo_lightning.compat.openrlhf import OPENRLHF
from grpo_lightning.compat.preset import Preset
from grpo_lightning.compat.trl import TRL
from grpo_lightning.compat.verl import VERL
from grpo_lightning.errors import ConfigError, near_matches

PRESETS: dict[str, Preset] = {"trl": TRL, "verl": VERL, "openrlhf": OPENRLHF, "nemo_rl": NEMO_RL}


def compat(name: str, written: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings below ``model`` of a preset, to be laid beneath what a person wrote.

    Args:
        name: Name of the preset.
        written: What the person wrote below ``model``.

    Returns:
        A copy that is the caller's own.

    Raises:
        ConfigError: If there is no such preset, or it leaves a setting open that is not written.

    Example:
        >>> compat("trl")["advantage"]
        {'name': 'group_norm', 'ddof': 1, 'eps': 0.0001, 'std_floor': 0.0, 'scale': 'group'}
    """
    if name not in PRESETS:
        raise ConfigError("model.compat", name, "is no preset", near_matches(name, PRESETS))
    preset = PRESETS[name]
    for setting, (reason, choices) in preset.undecided.items():
        if (written or {}).get(setting) is None:
            raise ConfigError("model.compat", name, f"leaves model.{setting} open: {reason}", choices)
    return copy.deepcopy(dict(preset.settings))
