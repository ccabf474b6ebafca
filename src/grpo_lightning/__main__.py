"""``python -m grpo_lightning``."""

from __future__ import annotations

from grpo_lightning.cli.main import leave
from grpo_lightning.cli.main import main as run_words


def main() -> None:
    """Run the command line of this process and leave with its exit code."""
    leave(run_words())


if __name__ == "__main__":
    main()
