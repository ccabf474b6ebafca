"""Runs every hostile program and writes the table in the README: ``python tests/hostile_table.py``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hostile_programs import CHEATS, ESCAPES, RESOURCES, Attack
from hostile_setting import Setting

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- hostile table -->\n", "<!-- end of hostile table -->"
TITLES = {"to hurt the machine": RESOURCES, "to get out": ESCAPES, "to get an unearned score": CHEATS}


def row(attack: Attack) -> str:
    """A line of the table, from a run of its own."""
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(Path(folder))
        outcome = setting.attack(attack)
        whole = setting.state() == setting.before and not setting.heard()
        left = setting.left_processes()
        setting.close()
    contained = whole and not left and b"ESCAPED" not in outcome.stdout
    printed = outcome.stdout.decode("utf-8", "replace").strip().partition("\n")[0][:48] if attack.printed else ""
    detail = re.sub(r"\s+", " ", outcome.detail)[:72].replace("|", "/")
    happened = ": ".join(part for part in (outcome.status, detail or (f"`{printed}`" if printed else "")) if part)
    return f"| {attack.name} | {attack.does} | {happened} | {'yes' if contained else 'NO'} |"


def main() -> None:
    """Write the table."""
    lines = []
    for title, attacks in TITLES.items():
        lines += [f"| program, {title} | what it does | what happened | contained |", "|---|---|---|---|"]
        lines += [*map(row, attacks), ""]
    text = README.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    README.write_text(text[:start] + "\n" + "\n".join(lines) + text[end:])


if __name__ == "__main__":
    main()
