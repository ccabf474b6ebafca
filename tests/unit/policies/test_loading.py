"""From an address to a model and back to a folder that plain transformers reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.embedded import character_tokenizer
from grpo_lightning.policies.lora import LoRA
from helpers.chat import CHAT_VOCABULARY, chat_tokenizer
from helpers.tiny_policy import load_policy, move, save_model, small_llama, tiny_policy

IDS = torch.arange(3, 43).reshape(2, 20)


def chat_model(folder: Path, **generation: Any) -> str:
    config = small_llama(vocab_size=CHAT_VOCABULARY, eos_token_id=[1, 100])
    return save_model(folder, config, tokenizer=chat_tokenizer(), generation={"eos_token_id": [100, 7]} | generation)


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)])
def test_export_loads_with_plain_transformers(tmp_path: Path, lora: LoRA | None) -> None:
    policy = load_policy(chat_model(tmp_path / "model", do_sample=True, top_k=20), lora=lora, dtype="float32")
    move(policy, seed=4, scale=0.05)
    with torch.no_grad():
        wanted = policy.causal_lm(input_ids=IDS).logits
    before = {name: each.clone() for name, each in policy.state_dict().items()}
    own = policy.causal_lm.generation_config
    policy.export(tmp_path / "export" / "deep")
    assert policy.causal_lm.generation_config is own
    assert all(torch.equal(before[name], each) for name, each in policy.state_dict().items())
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path / "export" / "deep", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with torch.no_grad():
        found = model(input_ids=IDS).logits
        if lora is None:
            assert torch.equal(found, wanted)
        else:
            assert float((found - wanted).abs().max()) < 1e-5 * float(wanted.abs().max())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "export" / "deep")
    messages = [{"role": "user", "content": "2 + 3 ="}]
    rendered = [
        each.apply_chat_template(messages, add_generation_prompt=True) for each in (tokenizer, policy.tokenizer)
    ]
    assert list(rendered[0]["input_ids"]) == list(rendered[1]["input_ids"])
    generation = GenerationConfig.from_pretrained(tmp_path / "export" / "deep")
    assert generation.eos_token_id == [1, 7, 100]
    assert generation.pad_token_id == 0
    assert (generation.do_sample, generation.top_k) == (True, 20)


def test_export_is_an_address_again(tmp_path: Path) -> None:
    policy = tiny_policy()
    policy.export(tmp_path)
    again = load_policy(str(tmp_path))
    assert torch.equal(again.causal_lm(input_ids=IDS).logits, policy.causal_lm(input_ids=IDS).logits)
    assert again.stop_ids == policy.stop_ids == {1}
    assert again.context_length == policy.context_length == 256
    assert again.tokenizer.encode("7 + 8") == policy.tokenizer.encode("7 + 8")
    assert again.causal_lm.get_output_embeddings().weight is again.causal_lm.get_input_embeddings().weight


def test_export_of_a_model_that_never_ends(tmp_path: Path) -> None:
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    policy = load_policy(save_model(tmp_path / "model", small_llama(eos_token_id=None), tokenizer=tokenizer))
    assert policy.stop_ids == frozenset()
    policy.export(tmp_path / "export")
    assert GenerationConfig.from_pretrained(tmp_path / "export").eos_token_id is None


def test_export_writes_nothing_of_how_it_was_loaded(tmp_path: Path) -> None:
    policy = load_policy(save_model(tmp_path / "model"), trust_remote_code=True)
    policy.export(tmp_path / "export")
    for path in (tmp_path / "export").glob("*.json"):
        assert "trust_remote_code" not in path.read_text()


def test_a_generation_config_that_transformers_would_not_save_is_mended(tmp_path: Path) -> None:
    """Many models on hubs have settings of sampling beside ``do_sample: false``."""
    folder = Path(save_model(tmp_path / "model"))
    written = {"eos_token_id": [1, 5], "temperature": 0.6, "top_p": 0.9, "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(written))
    policy = load_policy(str(folder))
    assert policy.stop_ids == {1, 5}
    policy.export(tmp_path / "export")
    again = GenerationConfig.from_pretrained(tmp_path / "export")
    assert again.eos_token_id == [1, 5]
    assert not again.do_sample


def test_a_model_without_a_generation_config(tmp_path: Path) -> None:
    folder = Path(save_model(tmp_path))
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert load_policy(str(folder)).stop_ids == {1}


def test_a_tokenizer_without_a_pad_token(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer()
    tokenizer.pad_token = None
    folder = save_model(tmp_path, small_llama(vocab_size=CHAT_VOCABULARY), tokenizer=tokenizer)
    assert load_policy(folder).tokenizer.pad_token == "<|end|>"


@pytest.mark.parametrize(
    "missing", ["model.safetensors", "tokenizer.json", "tokenizer_config.json+tokenizer.json+special_tokens_map.json"]
)
def test_missing_files_are_config_errors(tmp_path: Path, missing: str) -> None:
    folder = Path(save_model(tmp_path))
    for name in missing.split("+"):
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(ConfigError, match=r"model: .* does not load"):
        load_policy(str(folder))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", "this is no tensor"),
        ("config.json", "{not json"),
        ("config.json", '{"model_type": "no_such_family"}'),
        ("config.json", '{"model_type": "t5"}'),
        ("tokenizer.json", "{}"),
    ],
)
def test_broken_files_are_config_errors(tmp_path: Path, name: str, content: str) -> None:
    folder = Path(save_model(tmp_path))
    (folder / name).write_text(content)
    with pytest.raises(ConfigError, match=r"model: .* does not load"):
        load_policy(str(folder))


def test_an_attention_that_does_not_exist_is_named(tmp_path: Path) -> None:
    for model in (save_model(tmp_path), "embedded://tiny-llama"):
        with pytest.raises(ConfigError, match=r"attention: 'no_such_attention' does not go with this model"):
            load_policy(model, attention="no_such_attention")


def test_dtypes(tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    for name in ("float32", "bfloat16", "float16", "float64"):
        policy = load_policy(folder, dtype=name)
        assert {parameter.dtype for parameter in policy.parameters()} == {getattr(torch, name)}
    for name in ("float8", "nn", "int64"):
        with pytest.raises(ConfigError, match=f"dtype: '{name}'"):
            CausalLM(model=folder, dtype=name)  # type: ignore[arg-type]


REMOTE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path(__file__).with_name("ran").touch()
Path({marker!r}).touch()

class OwnConfig(LlamaConfig):
    model_type = "own_llama"

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


def test_code_of_a_model_runs_only_if_it_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder, marker = Path(save_model(tmp_path / "own")), tmp_path / "ran"
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "own_llama",
        "architectures": ["OwnModel"],
        "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(REMOTE.format(marker=str(marker)))
    # Without a question on the terminal: what is not said is no.
    monkeypatch.setattr("builtins.input", lambda *arguments: "n")
    with pytest.raises(ConfigError, match=r"model: .* does not load"):
        load_policy(str(folder))
    assert not marker.exists()
    policy = load_policy(str(folder), trust_remote_code=True)
    assert marker.exists()
    assert type(policy.causal_lm).__name__ == "OwnModel"
    shutil.rmtree(tmp_path / "modules", ignore_errors=True)
