"""What a candidate's own process runs where the whole program is the candidate: its source, as the main module."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the source that waits in the folder of the sandbox."""
    with open("program.py", encoding="utf-8", errors="surrogatepass") as stream:
        source = stream.read()
    sys.argv = ["program.py"]
    namespace = sys.modules["__main__"].__dict__
    for name in [name for name in namespace if not name.startswith("__")]:
        del namespace[name]
    exec(compile(source, "program.py", "exec", dont_inherit=True), namespace)
