"""What the table of each benchmark shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from measuring.tables import Run, again, gib, spread, table


def step(runs: Sequence[Run]) -> str:
    """Whole steps next to TRL's."""
    head = ["prompt", "precision", "TRL 1.16, s", "ours, s", "times faster", "run before", "TRL generating, s",
            "ours generating, s", "TRL peak, GiB", "ours peak, GiB"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        sides = case["sides"]
        ours, trl = sides["ours"], sides.get("trl")
        rows.append([
            f"{case['prompt_tokens']} tokens", case["precision"], spread(trl["seconds"]) if trl else "",
            spread(ours["seconds"]), spread(case["speedup"]) if trl else "",
            again(runs, index, lambda each: spread(each["speedup"])) if trl else "",
            spread(trl["generate_seconds"]) if trl else "", spread(ours["generate_seconds"]),
            gib(trl["peak_bytes"]) if trl else "", gib(ours["peak_bytes"]),
        ])  # fmt: skip
    return table(head, rows)


TABLES: dict[str, Callable[[Sequence[Run]], str]] = {"step": step}
