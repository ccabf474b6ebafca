from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.cli.yaml_text import load_file, parse_value
from grpo_lightning.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-6", 1e-6), ("1E3", 1000.0), ("-2.5e+2", -250.0), (".5e1", 5.0), ("1.0", 1.0), ("12", 12), ("e5", "e5")],
)
def test_numbers_as_people_write_them(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: {lr: 1e-6}\nbase: &b {x: 1}\nmore: {<<: *b, y: 2}\n")
    assert load_file(path) == {"model": {"lr": 1e-6}, "base": {"x": 1}, "more": {"x": 1, "y": 2}}


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing\n")
    assert load_file(tmp_path / "a.yaml") == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: [1\nc: 2\n", "is malformed at line 3: expected ',' or ']', but got ':'; mend that line"),
        ("a: 1\nb: 2\na: 3\n", "is malformed at line 3: 'a' is given twice; mend that line"),
        ("m:\n  x: 1\n  x: 2\n", "is malformed at line 3: 'x' is given twice; mend that line"),
        ("- 1\n", "is no mapping of settings; start from a file in configs/"),
        ("1: 2\n", "is no mapping of settings; start from a file in configs/"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, fault: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_file(Path("a.yaml"))
    assert str(raised.value) == f"config: 'a.yaml' {fault}"


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; check the path"):
        load_file(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_file(tmp_path / "binary.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_file(tmp_path)
