"""``rewards try`` and ``rewards compare``."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from grpo_lightning.errors import ConfigError, require
from grpo_lightning.registry import registry


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of the command."""
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(parser_class=type(parser))
    trying = actions.add_parser("try", help="score recorded completions: components, failures, time, what looks wrong")
    trying.add_argument(
        "--config",
        required=True,
        action="append",
        metavar="FILE",
        help="a configuration with model.rewards; several are laid over each other; FILE#NAME takes one entry by itself",
    )
    comparing = actions.add_parser("compare", help="do two lists of rewards rank recorded completions alike?")
    for name in ("first", "second"):
        comparing.add_argument(name, metavar="FILE[#NAME]", help="a configuration, or one entry of its model.rewards")
    comparing.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="what both are laid over, such as the data of a run",
    )
    for action, each in (("try", trying), ("compare", comparing)):
        each.set_defaults(action=action)
        each.add_argument(
            "--data",
            required=True,
            metavar="FILE",
            help="JSONL: completion (text, or a list of texts for a group), prompt, and the columns that rewards read; "
            "what predict wrote will do",
        )
        each.add_argument("--limit", type=int, metavar="N", help="read the first N lines only")
        each.add_argument("--json", action="store_true", help="print JSON, with every row")


def run(arguments: Namespace) -> int:
    """score recorded completions without a model, or compare two lists of rewards"""
    if arguments.action is None:
        raise ConfigError("arguments", "rewards", "says not what to do", "write rewards try or rewards compare")
    require(
        arguments.limit is None or arguments.limit > 0,
        "limit",
        arguments.limit,
        "is no number of lines",
        "set 1 or more",
    )
    # Imported here: torch takes a second, which `--help` can do without.
    from grpo_lightning.cli.recorded_scores import recorded_scores
    from grpo_lightning.cli.reward_comparison import compare
    from grpo_lightning.cli.reward_page import page
    from grpo_lightning.cli.reward_report import as_json
    from grpo_lightning.cli.reward_setup import reward_setup

    known = registry()
    last = [None] if arguments.action == "try" else [arguments.first, arguments.second]
    files = [[*arguments.config, *([each] if each else [])] for each in last]
    setups = [reward_setup(each, known) for each in files]
    scored = [recorded_scores(setup, arguments.data, arguments.limit, known) for setup in setups]
    if arguments.action == "try":
        text = json.dumps(as_json(scored[0]), indent=2) if arguments.json else page(scored[0])
    else:
        comparison = compare(scored[0], scored[1])
        text = json.dumps(comparison.as_json(), indent=2) if arguments.json else comparison.page()
    sys.stdout.write(text.rstrip("\n") + "\n")
    stopped = any(each.count(name, "failures") for each in scored for name in each.stopping)
    return int(stopped)
