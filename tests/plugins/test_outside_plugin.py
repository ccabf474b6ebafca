"""Pip packages from outside: their wheels beside the wheel of the core, in an environment that has no sources."""

from __future__ import annotations

import json
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

from helpers.outside_commands import run, succeed

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "grpo-lightning-palindrome"
CONFIG = PLUGIN / "configs" / "palindrome.yaml"
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))

OURS = [path for path in PLUGINS if "[project.entry-points.grpo_lightning]" in (path / "pyproject.toml").read_text()]
"""Plugins of this library; the others are plugins of what a run works with."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The Python of a new environment with all wheels, and a folder to work in."""
    folder = tmp_path_factory.mktemp("outside")
    wheels = folder / "wheels"
    for source in (ROOT, *PLUGINS):
        succeed(
            [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", wheels, source], folder
        )  # fmt: skip
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    site = Path(succeed([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    # The dependencies come from the environment of the tests. Its own .pth files are not read this way, so an editable
    # install of the sources stays out of sight.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    built = sorted(wheels.glob("*.whl"))
    assert len(built) == 1 + len(PLUGINS)
    succeed([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *built], folder)
    return python, folder


def test_all_come_from_their_wheels(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    names = ["grpo_lightning", *(path.name.replace("-", "_") for path in PLUGINS)]
    code = f"from importlib import import_module\nfor name in {names}: print(import_module(name).__file__)"
    lines = succeed([python, "-c", code], folder).splitlines()
    assert len(lines) == len(names)
    assert all(Path(line).is_relative_to(folder / "env") for line in lines)


@pytest.mark.parametrize("plugin", OURS, ids=lambda path: path.name)
def test_every_plugin_of_this_repository_registers_and_its_configurations_are_right(
    fresh: tuple[Path, Path], plugin: Path
) -> None:
    python, folder = fresh
    listed = json.loads(succeed([python, "-m", "grpo_lightning", "plugins", "list", "--json"], folder))
    assert any(each["distribution"] == plugin.name for each in listed["components"])
    assert not [each for each in listed["failures"] if each["distribution"].startswith(plugin.name)]
    configs = sorted(plugin.glob("configs/*.yaml"))
    assert configs
    for config in configs:
        words = ["fit", "--config", config, "--print_config"]
        assert "class_path" in succeed([python, "-m", "grpo_lightning", *words], folder), config.name


def test_reward_is_listed_with_its_distribution(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    listed = json.loads(succeed([python, "-m", "grpo_lightning", "plugins", "list", "--json"], folder))
    (entry,) = [each for each in listed["components"] if each["name"] == "palindrome"]
    assert entry["kind"] == "reward"
    assert entry["distribution"] == "grpo-lightning-palindrome"
    assert entry["version"] == "0.1.0"
    assert entry["path"] == "grpo_lightning_palindrome.Palindrome"
    assert listed["failures"] == []


def test_wheel_holds_the_embedded_run(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    config = yaml.safe_load(succeed([python, "-m", "grpo_lightning", "fit", "--print_config"], folder))
    assert config["model"]["policy"]["init_args"]["model"] == "embedded://tiny-llama"


def test_short_name_trains(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    done = run(
        [python, "-m", "grpo_lightning", "fit", "--config", CONFIG, "--trainer.max_steps", "2"], folder
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (metrics,) = (folder / "runs").rglob("metrics.csv")
    header = metrics.read_text().partition("\n")[0]
    assert "palindrome" in header
    (saved,) = (folder / "runs").rglob("config.yaml")
    assert "grpo_lightning_palindrome.Palindrome" in saved.read_text()


def test_own_tests_of_the_plugin_pass(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    succeed([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", PLUGIN / "tests"], folder)


def test_wrong_option_of_the_plugin_is_one_line(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    config = yaml.safe_load(CONFIG.read_text())
    config["model"]["rewards"] = [{"reward": {"name": "palindrome", "min_lenght": 3}}]
    wrong = folder / "wrong.yaml"
    wrong.write_text(yaml.safe_dump(config))
    done = run([python, "-m", "grpo_lightning", "fit", "--config", wrong], folder)
    assert done.returncode == 2
    assert "'palindrome'" in done.stderr
    assert "did you mean 'min_length'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_broken_plugin_is_reported_and_stops_nothing(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    site = Path(succeed([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    info = site / "broken_plugin-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 3.0\n")
    (info / "entry_points.txt").write_text("[grpo_lightning]\nbroken = a_module_that_is_not_there\n")
    listed = json.loads(succeed([python, "-m", "grpo_lightning", "plugins", "list", "--json"], folder))
    (failure,) = listed["failures"]
    assert failure["distribution"] == "broken-plugin 3.0"
    assert "a_module_that_is_not_there" in failure["cause"]
    assert any(each["name"] == "palindrome" for each in listed["components"])
