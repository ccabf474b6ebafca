"""A run keeps which plugins it was made with, and tells where others are installed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.metadata import distributions
from pathlib import Path

import pytest
import torch
import yaml

from grpo_lightning import __version__
from grpo_lightning.cli.main import main
from grpo_lightning.plugin_record import KEY
from grpo_lightning.plugin_switches import STRICT
from grpo_lightning.pluginmanager import plugins
from grpo_lightning.registry import registry
from helpers.installed_plugins import Site
from helpers.launched_ranks import TESTS, rank_variables, run_ranks

TINY = Path(__file__).parents[1] / "conf" / "tiny.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder of plugins that the process's own registry loads."""
    plugins.cache_clear()
    registry.cache_clear()
    found = partial(distributions, path=[str(tmp_path / "site")])
    monkeypatch.setattr("grpo_lightning.pluginmanager.distributions", found)
    (tmp_path / "site").mkdir()
    yield Site(tmp_path / "site", monkeypatch)
    plugins.cache_clear()
    registry.cache_clear()


def test_versions_are_in_what_a_run_leaves(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.add_reward("polite-words", "polite", "Polite")
    assert main(["fit", "--config", str(TINY), "--trainer.max_steps", "3"]) == 0
    versions = {"grpo-lightning": __version__, "polite-words": "1.0"}
    assert yaml.safe_load(Path("runs/001/config.yaml").read_text())["plugins"] == versions
    assert yaml.safe_load(Path("runs/001/hparams.yaml").read_text())["plugins"] == versions
    checkpoint = torch.load("runs/001/checkpoints/last.ckpt", weights_only=True)
    assert checkpoint[KEY] == versions

    capsys.readouterr()
    assert main(["fit", "--config", "runs/001/config.yaml", "--plugins", "{polite-words: '2.0', ghost: '1'}"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: the configuration was written with polite-words 2.0, and here it is 1.0",
        "warning: the configuration was written with ghost 1, and here it is not loaded",
    ]


def test_a_checkpoint_of_other_plugins_says_so(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.add_reward("polite-words", "polite", "Polite")
    assert main(["fit", "--config", str(TINY), "--trainer.max_steps", "3"]) == 0
    plugins.cache_clear()
    registry.cache_clear()
    (site.folder / "polite_words-1.0.dist-info" / "entry_points.txt").unlink()
    assert main(["validate"]) == 0
    assert "the checkpoint was made with polite-words 1.0, and here it is not loaded" in caplog.messages


def test_strict_stops_every_command(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site.add("broken", "import a_module_that_is_not_there")
    assert main(["plugins", "list"]) == 0
    registry.cache_clear()
    plugins.cache_clear()
    monkeypatch.setenv(STRICT, "1")
    for command in (["plugins", "list"], ["fit", "--config", str(TINY)]):
        assert main(command) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: plugin 'broken' of broken 1.0 did not load: ModuleNotFoundError")
        assert error.endswith(f"({STRICT} is set)")
    assert not Path("runs").exists()


@pytest.mark.slow
@pytest.mark.multiprocess
def test_ranks_with_different_plugins_stop_before_they_train(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        Site(tmp_path / "site", patch).add_reward("polite-words", "polite", "Polite")
    first, second = rank_variables(2)
    second = second | {"PYTHONPATH": f"{TESTS}:{tmp_path / 'site'}"}
    words = ["-m", "grpo_lightning", "fit", "--config", str(TINY), "--trainer.devices", "2", "--run_folder", "two"]
    words += ["--trainer.strategy", "ddp"]
    ended = run_ranks(words, [first, second], seconds=120, folder=tmp_path)
    assert [done.returncode for done in ended] == [2, 2]
    error = ended[0].stderr.splitlines()[-1]
    assert error.startswith("error: plugins: 'rank 1' loaded other plugins than rank 0: ")
    assert "polite-words is not loaded there and 1.0 here" in error
