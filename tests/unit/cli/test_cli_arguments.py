from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.cli.arguments import Setting, parse_arguments
from grpo_lightning.errors import ConfigError


def test_both_ways_to_give_a_value() -> None:
    found = parse_arguments(["--model.loss.epsilon_high", "0.28", "--model.group_size=4"]).settings
    assert found == [Setting(("model", "loss", "epsilon_high"), 0.28), Setting(("model", "group_size"), 4)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("-1", -1),
        ("true", True),
        ("null", None),
        ("", ""),
        ("[a, b]", ["a", "b"]),
        ("{name: k2, weight: 1e-3}", {"name": "k2", "weight": 1e-3}),
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("@@", "@@"),
        ("a: b: c", "a: b: c"),
        ('"8"', "8"),
    ],
)
def test_values_are_yaml_or_else_text(text: str, value: object) -> None:
    assert parse_arguments([f"--a.b={text}"]).settings == [Setting(("a", "b"), value)]
    assert parse_arguments(["--a.b", text]).settings == [Setting(("a", "b"), value)]


def test_an_option_alone_is_true() -> None:
    found = parse_arguments(["--wandb", "--model.record"]).settings
    assert found == [Setting(("wandb",), True), Setting(("model", "record"), True)]


@pytest.mark.parametrize("words", [["--a.list+=x"], ["--a.list+", "x"]])
def test_a_plus_appends(words: list[str]) -> None:
    assert parse_arguments(words).settings == [Setting(("a", "list"), "x", append=True)]


def test_configs_and_flags() -> None:
    found = parse_arguments(["-c", "a.yaml", "--config=b.yaml", "--config", "c.yaml", "--print_config", "-h"])
    assert found.configs == [Path("a.yaml"), Path("b.yaml"), Path("c.yaml")]
    assert found.print_config
    assert found.help


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stray"], "arguments: 'stray' belongs to no option; write --setting VALUE"),
        (["--a..b", "1"], "arguments: '--a..b' is no option; write --group.setting VALUE"),
        (["--"], "arguments: '--' is no option; write --group.setting VALUE"),
        (["--config"], "config: None is no file; write --config FILE"),
        (["--config", "--a"], "config: None is no file; write --config FILE"),
    ],
)
def test_what_is_no_option(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_arguments(words)
    assert str(raised.value) == message
