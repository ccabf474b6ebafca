"""From nothing to a working plugin, as a new user would do it: ``plugins new``, ``pip install -e``, ``plugins check``."""

from __future__ import annotations

import json
import sys
import sysconfig
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from grpo_lightning.kinds import KINDS
from helpers.outside_commands import run, succeed

ROOT = Path(__file__).parents[2]
OTHERS = [kind for kind in KINDS if kind != "reward"]
PIP = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The Python of a new environment that has the core's wheel, and a folder to work in."""
    folder = tmp_path_factory.mktemp("scaffold")
    succeed([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder / "wheels", ROOT], folder)
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    site = Path(succeed([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    succeed([python, *PIP, *(folder / "wheels").glob("*.whl")], folder)
    return python, folder


def test_three_commands(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    start = time.perf_counter()
    said = succeed([python, "-m", "grpo_lightning", "plugins", "new", "my-reward", "--kind", "reward"], folder)
    # What it says to do next is what is done here, but for the switches that keep pip off the network.
    assert "  pip install -e ./grpo-lightning-my-reward\n" in said
    assert "  python -m grpo_lightning plugins check my-reward\n" in said
    made = time.perf_counter()
    succeed([python, *PIP, "--no-build-isolation", "-e", "./grpo-lightning-my-reward"], folder)
    installed = time.perf_counter()
    checked = succeed([python, "-m", "grpo_lightning", "plugins", "check", "my-reward"], folder)
    end = time.perf_counter()
    assert checked.startswith("grpo-lightning-my-reward 0.1.0\n  reward my_reward: ")
    assert checked.endswith(" checks passed\n"), "nothing fails, and nothing is wrong with the packaging"
    print(f"new {made - start:.1f} s, install {installed - made:.1f} s, check {end - installed:.1f} s")
    tested = succeed([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "./grpo-lightning-my-reward"], folder)
    assert "failed" not in tested


def test_every_other_kind_passes_its_checks_and_its_tests(fresh: tuple[Path, Path]) -> None:
    python, folder = fresh
    commands = [["plugins", "new", f"my-{kind}", "--kind", kind, "--output", "others"] for kind in OTHERS]
    succeed([python, "-c", script(commands)], folder)
    packages = [f"./others/grpo-lightning-my-{kind}" for kind in OTHERS]
    editable = [word for package in packages for word in ("-e", package)]
    succeed([python, *PIP, "--no-build-isolation", *editable], folder)
    said = succeed([python, "-c", script([["plugins", "check", f"my-{kind}"] for kind in OTHERS])], folder)
    assert sum(line.endswith(" checks passed") for line in said.splitlines()) == len(OTHERS)
    assert "warning" not in said
    succeed([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *packages], folder)
    listed = json.loads(succeed([python, "-m", "grpo_lightning", "plugins", "list", "--json"], folder))
    assert not [each for each in listed["failures"] if each["distribution"].startswith("grpo-lightning-my-")]


@pytest.mark.parametrize("kind", KINDS)
def test_configuration_trains(fresh: tuple[Path, Path], kind: str) -> None:
    python, folder = fresh
    place = folder if kind == "reward" else folder / "others"
    package = place / f"grpo-lightning-my-{kind}"
    if not package.exists():
        pytest.skip("the tests that make and install the package did not run")
    command = [python, "-m", "grpo_lightning", "fit", "--config", f"configs/my_{kind}.yaml"]
    done = run([*command, "--trainer.max_steps", "23", "--model.warmup.updates", "20"], package)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (saved,) = (package / "runs").rglob("config.yaml")
    assert f"grpo_lightning_my_{kind}.my_{kind}." in saved.read_text()


def test_typed_and_clean(fresh: tuple[Path, Path], tmp_path: Path) -> None:
    _, folder = fresh
    packages = [folder / "grpo-lightning-my-reward", *sorted((folder / "others").glob("*"))]
    if len(packages) < len(KINDS):
        pytest.skip("the tests that make the packages did not run")
    succeed([sys.executable, "-m", "ruff", "check", "--no-cache", *packages], folder)
    succeed([sys.executable, "-m", "ruff", "format", "--no-cache", "--check", *packages], folder)
    modules = [next((package / "src").iterdir()) for package in packages]
    succeed([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, *modules], folder)


def script(commands: Sequence[Sequence[str]]) -> str:
    """Python that runs several commands in one process, and fails where one of them does."""
    words = [list(command) for command in commands]
    return f"from grpo_lightning.cli.main import main\nimport sys\nsys.exit(any([main(each) for each in {words!r}]))\n"
