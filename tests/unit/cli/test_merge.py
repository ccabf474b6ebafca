from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.cli.arguments import Setting
from grpo_lightning.cli.merge import apply_setting, deep_merge
from grpo_lightning.errors import ConfigError


def test_mappings_merge_and_the_rest_is_replaced() -> None:
    base = {"model": {"a": 1, "list": [1, 2], "deep": {"x": 1}}, "data": 3}
    over = {"model": {"b": 2, "list": [9], "deep": {"y": 2}}}
    assert deep_merge(base, over) == {"model": {"a": 1, "b": 2, "list": [9], "deep": {"x": 1, "y": 2}}, "data": 3}
    assert base["model"] == {"a": 1, "list": [1, 2], "deep": {"x": 1}}, "the base is left as it was"


@pytest.mark.parametrize(
    ("below", "over", "merged"),
    [
        ({"name": "clipped", "low": 1}, {"high": 2}, {"name": "clipped", "low": 1, "high": 2}),
        ({"name": "clipped", "low": 1}, {"name": "clipped", "high": 2}, {"name": "clipped", "low": 1, "high": 2}),
        ({"name": "clipped", "low": 1}, {"name": "other", "high": 2}, {"name": "other", "high": 2}),
        ({"class_path": "a.B", "init_args": {"low": 1}}, {"name": "other"}, {"name": "other"}),
        ("clipped", {"high": 2}, {"name": "clipped", "high": 2}),
        ("clipped", {"name": "other"}, {"name": "other"}),
        ({"name": "clipped", "low": 1}, "other", "other"),
    ],
)
def test_another_component_starts_afresh(below: Any, over: Any, merged: Any) -> None:
    assert deep_merge({"loss": below}, {"loss": over}) == {"loss": merged}


def test_the_name_of_a_wandb_run_is_no_component() -> None:
    base = {"wandb": {"project": "p", "name": "a"}}
    assert deep_merge(base, {"wandb": {"name": "b"}}) == {"wandb": {"project": "p", "name": "b"}}


def applied(config: dict[str, Any], path: str, value: Any, *, append: bool = False) -> dict[str, Any]:
    apply_setting(config, Setting(tuple(path.split(".")), value, append))
    return config


@pytest.mark.parametrize(
    ("config", "path", "value", "expected"),
    [
        ({}, "model.group_size", 4, {"model": {"group_size": 4}}),
        ({"model": None}, "model.group_size", 4, {"model": {"group_size": 4}}),
        ({"model": {"loss": "clipped"}}, "model.loss.low", 1, {"model": {"loss": {"name": "clipped", "low": 1}}}),
        ({"model": {"loss": {"name": "a", "x": 1}}}, "model.loss", "b", {"model": {"loss": "b"}}),
        ({"wandb": True}, "wandb.project", "p", {"wandb": {"project": "p"}}),
        ({"r": ["a", {"name": "b"}]}, "r.1.weight", 2, {"r": ["a", {"name": "b", "weight": 2}]}),
        ({"r": ["a", "b"]}, "r.0.weight", 2, {"r": [{"name": "a", "weight": 2}, "b"]}),
        ({"r": ["a", "b"]}, "r.0", "c", {"r": ["c", "b"]}),
        ({"l": {"class_path": "a.B", "init_args": {"x": 1}}}, "l.name", "c", {"l": {"name": "c"}}),
        ({"l": {"name": "a", "x": 1}}, "l.x", 2, {"l": {"name": "a", "x": 2}}),
    ],
)
def test_one_value(config: dict[str, Any], path: str, value: Any, expected: dict[str, Any]) -> None:
    assert applied(config, path, value) == expected


@pytest.mark.parametrize(
    ("config", "value", "expected"),
    [
        ({}, "a", ["a"]),
        ({"r": None}, "a", ["a"]),
        ({"r": ["a"]}, "b", ["a", "b"]),
        ({"r": ["a"]}, ["b", "c"], ["a", "b", "c"]),
        ({"r": ["a"]}, {"name": "b"}, ["a", {"name": "b"}]),
    ],
)
def test_append(config: dict[str, Any], value: Any, expected: list[Any]) -> None:
    assert applied(config, "r", value, append=True) == {"r": expected}


@pytest.mark.parametrize(
    ("path", "append", "message"),
    [
        ("r.5.weight", False, "r.5.weight: 1 is beyond the 1 items of r; write --r+=VALUE to add one"),
        ("r.weight", False, "r.weight: 1 names no item of the list r; write --r.0.weight, or --r+=VALUE to add one"),
        ("n.deep", False, "n.deep: 1 belongs to n, which is 3; give that a mapping first"),
        ("n", True, "n: 1 is added to 3, which is no list; leave out the plus"),
    ],
)
def test_paths_that_lead_nowhere(path: str, append: bool, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        applied({"r": ["a"], "n": 3}, path, 1, append=append)
    assert str(raised.value) == message


def test_other_data_replace_the_data_below() -> None:
    base = {"data": {"train": {"name": "sorting", "length": 3}, "validation": {"a": {"name": "sorting", "samples": 2}}}}
    file = {"path": "x.jsonl", "columns": {"prompt": "q"}}
    assert deep_merge(base, {"data": {"train": file}})["data"]["train"] == file
    several = {"one": file, "two": {"name": "arithmetic"}}
    assert deep_merge(base, {"data": {"train": several}})["data"]["train"] == several
    assert deep_merge(base, {"data": {"validation": {"a": file}}})["data"]["validation"]["a"] == file
    longer = deep_merge(base, {"data": {"train": {"length": 4}}})
    assert longer["data"]["train"] == {"name": "sorting", "length": 4}
