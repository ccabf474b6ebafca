"""What an address names, found out without loading anything."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.policies import addresses, loading
from grpo_lightning.policies.addresses import resolve_address
from grpo_lightning.policies.causal_lm import CausalLM


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("something was loaded")

    for name in ("load_tokenizer", "load_config", "load_generation_config", "load_model"):
        monkeypatch.setattr(loading, name, refuse)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("embedded://tiny-lama", "is no embedded model; did you mean 'tiny-llama'?"),
        ("embedded://", "is no embedded model; known: tiny-llama"),
        ("./no/such/folder", "does not exist"),
        ("/no/such/folder", "does not exist"),
        ("~/no-such-folder-of-anyone", "does not exist"),
        ("model.gguf", "does not exist"),
        ("some/folder/deep", "does not exist"),
        ("s3://bucket/model", "does not exist"),
        (
            "package://no_such_package/model.gguf",
            "names package 'no_such_package', which is not installed; pip install",
        ),
        ("package://not-a-name/model.gguf", "which is not installed"),
        ("package://", "names package '', which is not installed"),
        ("package://peft/no_such_file.gguf", "is not in that package"),
        ("package://peft/no_such_folder/file.gguf", "is not in that package"),
        ("package://peft/utils", "holds no config.json"),
    ],
)
@pytest.mark.usefixtures("nothing_loads")
def test_what_names_nothing_is_refused_at_once(address: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CausalLM(model=address)
    assert str(caught.value).startswith(f"model: {address!r} ")
    assert said in str(caught.value)


@pytest.mark.usefixtures("nothing_loads")
def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no config\.json; give a folder written by save_pretrained"):
        CausalLM(model=str(tmp_path))


@pytest.mark.usefixtures("nothing_loads")
def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(ConfigError, match=r"holds no config\.json"):
        CausalLM(model=str(path))


def test_embedded() -> None:
    found = resolve_address("embedded://tiny-llama")
    assert found.embedded
    assert found.arguments() == {}


def test_hub_ids() -> None:
    for text in ("gpt2", "Qwen/Qwen2.5-0.5B-Instruct"):
        found = resolve_address(text)
        assert (found.source, found.gguf_file, found.embedded) == (text, None, False)


def test_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text("{}")
    assert resolve_address(str(tmp_path / "own")).source == str(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    assert resolve_address("own").source == "own"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_address("~/own").source == str(tmp_path / "own")


def test_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny.Q4_1.gguf"
    path.touch()
    monkeypatch.setattr(addresses, "find_spec", lambda name: object())
    found = resolve_address(str(path))
    assert (found.source, found.gguf_file) == (str(tmp_path), "tiny.Q4_1.gguf")
    assert found.arguments() == {"gguf_file": "tiny.Q4_1.gguf"}
    monkeypatch.setattr(addresses, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="package gguf is not installed"):
        resolve_address(str(path))


def test_file_and_folder_inside_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_weights"
    package.mkdir()
    for name in ("__init__.py", "model.gguf", "config.json"):
        (package / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("some_weights") is not None
    assert resolve_address("package://some_weights").source == str(package)
    if importlib.util.find_spec("gguf"):
        assert resolve_address("package://some_weights/model.gguf").gguf_file == "model.gguf"
    with pytest.raises(ConfigError, match=r"did you mean 'model\.gguf'"):
        resolve_address("package://some_weights/modle.gguf")
