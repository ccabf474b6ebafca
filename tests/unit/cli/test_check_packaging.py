from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.cli.check_packaging import packaging_warnings


def install(folder: Path, name: str, metadata: str, plugin: str, version: str = "1.0") -> None:
    info = folder / f"{name.replace('-', '_')}-{version or '0'}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}")
    (info / "entry_points.txt").write_text(f"[grpo_lightning]\n{plugin} = a_module\n\n[other]\nx = a_module\n")


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)


def test_a_sound_package(tmp_path: Path) -> None:
    metadata = 'Summary: Scores.\nRequires-Dist: pytest; extra == "dev"\nRequires-Dist: grpo-lightning>=0.1\n'
    install(tmp_path, "grpo-lightning-sound", metadata, "sound")
    assert list(packaging_warnings("grpo-lightning-sound")) == []


def test_everything_at_once(tmp_path: Path) -> None:
    install(tmp_path, "unsound", "Requires-Dist: grpo-lightning-other\n", "elsewhere", version="0.0")
    found = list(packaging_warnings("unsound"))
    assert [warning.partition(";")[0] for warning in found] == [
        "its name does not begin with grpo-lightning-, by which people find plugins",
        "it has no version",
        "it has no description",
        "it does not require grpo-lightning",
        "its entry point is called 'elsewhere', and 'unsound' by its own name is what people would look for",
    ]


def test_names_are_compared_as_indexes_do(tmp_path: Path) -> None:
    install(tmp_path, "grpo-lightning-two-words", "Summary: x\nRequires-Dist: GRPO_lightning\n", "two_words")
    assert list(packaging_warnings("grpo-lightning-two-words")) == []


def test_nothing_is_said_of_what_is_not_installed() -> None:
    assert list(packaging_warnings("grpo-lightning-nowhere")) == []
