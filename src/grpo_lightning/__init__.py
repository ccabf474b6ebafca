"""GRPO as a PyTorch Lightning framework whose every part is a plugin.

What is public to plugins: this root, ``grpo_lightning.types``, ``grpo_lightning.<kind>.base``
and ``grpo_lightning.functional``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from grpo_lightning._version import __version__
from grpo_lightning.hookspecs import hookimpl

if TYPE_CHECKING:
    from grpo_lightning.data.datamodule import GRPODataModule
    from grpo_lightning.module import GRPOModule
    from grpo_lightning.registry import LazyComponent, create

# Names are imported when they are first used, so that listing plugins does not import Lightning.
_LAZY = {
    "GRPODataModule": "grpo_lightning.data.datamodule",
    "GRPOModule": "grpo_lightning.module",
    "LazyComponent": "grpo_lightning.registry",
    "create": "grpo_lightning.registry",
}

__all__ = ["GRPODataModule", "GRPOModule", "LazyComponent", "__version__", "create", "hookimpl"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
