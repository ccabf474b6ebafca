"""Every benchmark, one after the other, and the tables of docs/performance.md from what they find.

    python benchmarks/all.py                           an hour and a half to two hours on two quiet cores
    python benchmarks/all.py --quick                   a few minutes, tables are left alone
    python benchmarks/all.py --only step --only roof   some of them

What further arguments a benchmark takes, its own ``--help`` tells.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

NAMES = ("step", "decode", "layout", "head_memory", "overhead", "growth", "roof", "plan")
PEERS = {"step": "--trl-env", "decode": "--vllm-env"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny model and sizes, to see that it works")
    parser.add_argument("--only", choices=NAMES, action="append", help="only this one (may be repeated)")
    for name, option in PEERS.items():
        parser.add_argument(option, type=Path, default=None, help=f"environment with the peer of {name}, to reuse")
    given = parser.parse_args()
    failed = []
    for name in given.only or NAMES:
        words = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *(["--quick"] if given.quick else [])]
        peer = getattr(given, PEERS[name].strip("-").replace("-", "_")) if name in PEERS else None
        words += ["--peer-env", str(peer)] if peer else []
        print(f"== {name}", flush=True)
        if subprocess.run(words, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
