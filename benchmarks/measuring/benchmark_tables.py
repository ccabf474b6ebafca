"""What the table of each benchmark shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from measuring.tables import Run, again, gib, spread, table


def step(runs: Sequence[Run]) -> str:
    """Whole steps next to TRL's."""
    head = ["prompt", "precision", "TRL 1.16, s", "ours, s", "times faster", "run before",
            "TRL with our memory settings, s", "times faster", "TRL generating, s", "ours generating, s", "TRL peak, GiB",
            "ours peak, GiB"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        sides = case["sides"]
        ours, trl, kept = sides["ours"], sides.get("trl"), sides.get("trl_kept")
        rows.append([
            f"{case['prompt_tokens']} tokens", case["precision"], spread(trl["seconds"]) if trl else "",
            spread(ours["seconds"]), spread(case["speedup"]) if trl else "",
            again(runs, index, lambda each: spread(each["speedup"])) if trl else "",
            spread(kept["seconds"]) if kept else "", spread(case["speedup_kept"]) if kept else "",
            spread(trl["generate_seconds"]) if trl else "", spread(ours["generate_seconds"]),
            gib(trl["peak_bytes"]) if trl else "", gib(ours["peak_bytes"]),
        ])  # fmt: skip
    return table(head, rows)


def layout(runs: Sequence[Run]) -> str:
    """A prompt once a group, next to once a row."""
    head = ["prompt", "dense, s", "prompt once, s", "times faster", "run before", "counted: all", "body", "attention",
            "head", "dense peak, GiB", "prompt once peak, GiB"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        dense, shared = case["sides"]["dense"], case["sides"]["shared"]
        rows.append([
            f"{case['prompt_tokens']} tokens", spread(dense["seconds"]), spread(shared["seconds"]),
            spread(case["speedup"]), again(runs, index, lambda each: spread(each["speedup"])),
            *(f"{case['counted'][part]:.2f}" for part in ("total", "body", "attention", "head")),
            gib(dense["peak_bytes_above"]), gib(shared["peak_bytes_above"]),
        ])  # fmt: skip
    return table(head, rows)


def head_memory(runs: Sequence[Run]) -> str:
    """Peak memory against vocabulary."""
    head = ["vocabulary", "peak above weights and gradient, MiB", "run before", "one set of logits would be, MiB", "s"]
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        rows.append([
            f"{case['vocabulary']:,}", spread(case["above_bytes"], 0, 2**-20),
            again(runs, index, lambda each: spread(each["above_bytes"], 0, 2**-20)),
            f"{case['logits_bytes'] / 2**20:.0f}", spread(case["seconds"]),
        ])  # fmt: skip
    return table(head, rows)


def decode(runs: Sequence[Run]) -> str:
    """Tokens a second of every engine."""
    head = ["rows", "lengths", "tokens", "ours, tokens/s", "generate(), tokens/s", "vLLM, tokens/s",
            "times generate()", "run before", "times vLLM", "run before"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        rates = [case["sides"].get(name, {}).get("tokens_per_second") for name in ("ours", "generate", "vllm")]
        line = [f"{case['prompts']} x {case['rows'] // case['prompts']}", case["kind"], str(case["tokens"])]
        line += [spread(rate, 0) if rate else "" for rate in rates]
        for name in ("generate", "vllm"):
            if name in case["speedup"]:
                line += [spread(case["speedup"][name]), again(runs, index, _times(name))]
            else:
                line += ["", ""]
        rows.append(line)
    return table(head, rows)


def _times(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda case: spread(case["speedup"][name])


def overhead(runs: Sequence[Run]) -> str:
    """The share of a step outside model arithmetic."""
    head = ["prompt", "precision", "step, s", "outside, s", "outside, %", "run before, %", "of it sampling around the model, s",
            "gradient's norm, s"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        rows.append([
            f"{case['prompt_tokens']} tokens", case["precision"], spread(case["seconds"]), spread(case["outside"], 3),
            spread(case["outside_share"], 1, 100), again(runs, index, lambda each: spread(each["outside_share"], 1, 100)),
            spread(case["sampling"], 3), spread(case["gradient_norm"], 3),
        ])  # fmt: skip
    return table(head, rows)


def growth(runs: Sequence[Run]) -> str:
    """Exponents of time and memory."""
    head = ["grows with", "sizes", "step: measured", "counted", "sampling: measured", "counted", "memory: measured",
            "counted", "run before: step, sampling, memory"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        line = [case["axis"], ", ".join(map(str, case["sizes"]))]
        for name in _GROWTHS:
            found = case["growth"][name]
            line += [f"{found['measured']:.2f}{'' if found['explained'] else ' (more)'}", f"{found['counted']:.2f}"]
        rows.append([*line, again(runs, index, _exponents)])
    return table(head, rows)


_GROWTHS = ("seconds", "generate", "above_bytes")


def _exponents(case: dict[str, Any]) -> str:
    return ", ".join(f"{case['growth'][name]['measured']:.2f}" for name in _GROWTHS)


def roof(runs: Sequence[Run]) -> str:
    """Each phase next to bare products at its shapes."""
    head = ["prompt", "precision", "phase", "s a step", "GFLOP/s", "bare products, s", "share of the roof, %",
            "run before, %"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        for name, phase in case["phases"].items():
            rows.append([
                f"{case['prompt_tokens']} tokens", case["precision"], name, f"{phase['seconds']:.3f}",
                f"{phase['gflops']:.0f}", spread(phase["roof_seconds"], 3), spread(phase["roof_share"], 0, 100),
                again(runs, index, _share_of(name)),
            ])  # fmt: skip
    return table(head, rows)


def _share_of(phase: str) -> Callable[[dict[str, Any]], str]:
    return lambda case: spread(case["phases"][phase]["roof_share"], 0, 100)


def plan(runs: Sequence[Run]) -> str:
    """What was planned next to what was measured."""
    head = ["parameters", "trained", "run", "strategy", "peak in", "planned, GiB", "measured, GiB", "planned is off by, %",
            "run before, %", "measured as fit keeps memory, GiB", "off by, %"]  # fmt: skip
    rows = []
    for index, case in enumerate(runs[-1]["cases"]):
        size, planned = case["size"], case["planned"]
        changed = [word.partition(".")[2].replace("policy.", "") for word in size.get("words", ())]
        other = [word for word in changed if not word.startswith("strategy")]
        strategy = next((word.partition("=")[2] for word in changed if word.startswith("strategy")), "one process")
        rows.append([
            f"{planned['parameters'] / 1e6:.0f} M", f"{planned['trained'] / 1e6:.1f} M",
            ", ".join([f"{size['budget']} tokens a micro-batch", *other]),
            f"{strategy}, {size['processes']} processes" if "processes" in size else strategy, planned["phase"],
            f"{planned['peak_bytes'] / 2**30:.2f}", gib(case["above_bytes"]), _off(case, "above_bytes"),
            again(runs, index, lambda each: _off(each, "above_bytes")), gib(case["kept_bytes"]), _off(case, "kept_bytes"),
        ])  # fmt: skip
    return table(head, rows)


def _off(case: dict[str, Any], measured: str) -> str:
    return f"{100 * (case['planned']['peak_bytes'] / case[measured]['median'] - 1):+.1f}"


TABLES: dict[str, Callable[[Sequence[Run]], str]] = {
    "step": step,
    "layout": layout,
    "head_memory": head_memory,
    "decode": decode,
    "overhead": overhead,
    "growth": growth,
    "roof": roof,
    "plan": plan,
}
