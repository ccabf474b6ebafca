"""The machine: what it is, how many threads are used, and how fast it multiplies matrices."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}


def use_threads(count: int) -> None:
    """Let this process compute with ``count`` threads, and keep freed memory. Call it before torch is imported."""
    # Environments of peers, which import this file, do not have this library.
    from grpo_lightning.cli.freed_memory import keep_freed_memory

    os.environ |= threads_of(count) | LARGE_PAGES
    keep_freed_memory()


def kept_memory() -> dict[str, str]:
    """Environment variables for what ``python -m grpo_lightning`` sets by itself: large pages, and freed memory kept."""
    from grpo_lightning.cli.freed_memory import SETTINGS

    return LARGE_PAGES | {name: str(value) for name, (_, value) in SETTINGS.items()}


def threads_of(count: int) -> dict[str, str]:
    """Environment variables that give a process its number of threads."""
    return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count)}


def describe() -> dict[str, Any]:
    """Processor, cores, memory, kernel, Python and torch, and what else keeps the machine busy."""
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "amx_bf16": "amx_bf16" in _cpuinfo("flags").split(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def sentence(machine: dict[str, Any]) -> str:
    """One line for people."""
    amx = ", AMX" if machine["amx_bf16"] else ""
    return (
        f"{machine['processor']} ({machine['capability']}{amx}), {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"torch {machine['torch']} with {machine['threads']} threads, Python {machine['python']}"
    )


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _cpuinfo(field: str) -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def seconds_of(call: Callable[[], object], *, at_least: int = 5, budget: float = 0.25) -> float:
    """Median seconds of a call: at least ``at_least`` times, and more until ``budget`` seconds are used."""
    call()
    times: list[float] = []
    while len(times) < at_least or (sum(times) < budget and len(times) < 1000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def product_seconds(rows: int, inner: int, columns: int, dtype: Any, *, budget: float = 0.25) -> float:
    """Median seconds of ``[rows, inner] @ [inner, columns]`` by the faster library of torch, the second factor a weight."""
    import torch

    from grpo_lightning.functional.linear import linear

    left, weight = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
    with torch.no_grad():
        return seconds_of(lambda: linear(left, weight), budget=budget)


def peak_rate(dtype: Any) -> float:
    """Floating point operations a second of a large square product."""
    size = 2048
    return float(2 * size**3 / product_seconds(size, size, size, dtype))
