"""Where the time of a step goes, by wrapping what is called. Needs this library."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from lightning.pytorch import Callback, Trainer

from grpo_lightning.engines.lean_forward import LeanForward
from measuring import memory

MODEL = ("decode", "forward", "backward", "optimizer")
"""Parts that are arithmetic of the model."""


class Stopwatch:
    """Seconds by part. A part inside another one belongs to the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._busy = False

    def add(self, part: str, seconds: float) -> None:
        """More time of a part."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def around(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, measured."""

        @wraps(call)
        def measured(*arguments: Any, **more: Any) -> Any:
            if self._busy:
                return call(*arguments, **more)
            self._busy, start = True, time.perf_counter()
            try:
                return call(*arguments, **more)
            finally:
                self._busy = False
                self.add(part, time.perf_counter() - start)

        return measured


class Steps(Callback):
    """Measures every step of a run: seconds by part, and memory above what was held before the step.

    Memory is that of the second step, the last that begins with all freed memory given back: that costs time, and the first
    step also makes what the optimizer holds.

    Parts: ``decode`` (the model inside the engine), ``forward`` (the policy's forward, head included), ``backward``,
    ``optimizer`` (its arithmetic), ``gradient_norm`` (check and norm), ``generate`` (sampling, ``decode`` included).
    """

    def __init__(self) -> None:
        self.measured: list[dict[str, float]] = []
        self._watch = Stopwatch()
        self._start, self._held, self._above, self._generate, self._checked = 0.0, 0, 0, 0.0, 0.0

    @property
    def _compares_memory(self) -> bool:
        return len(self.measured) <= 1

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        watch, policy = self._watch, pl_module.policy
        pl_module.backward = watch.around("backward", pl_module.backward)
        policy.forward = watch.around("forward", policy.forward)
        # On the class, so that a copy of the model that an engine made is seen, too, and the engine's own pass of it.
        classes: list[tuple[Any, str]] = [(type(policy.causal_lm), "forward"), (LeanForward, "__call__")]
        if type(policy.causal_lm.base_model) is not type(policy.causal_lm):
            classes.append((type(policy.causal_lm.base_model), "forward"))
        self._before = [(each, name, getattr(each, name)) for each, name in classes]
        for each, name, call in self._before:
            setattr(each, name, watch.around("decode", call))
        pl_module.configure_gradient_clipping = self._after_check(pl_module.configure_gradient_clipping)
        trainer.optimizers[0].register_step_post_hook(
            lambda *_: watch.add("optimizer", time.perf_counter() - self._checked)
        )

    def _after_check(self, call: Callable[..., Any]) -> Callable[..., Any]:
        measured = self._watch.around("gradient_norm", call)

        def checked(*arguments: Any, **more: Any) -> None:
            measured(*arguments, **more)
            self._checked = time.perf_counter()

        return checked

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        for each, name, call in self._before:
            setattr(each, name, call)
        for owner, name in [(pl_module, "backward"), (pl_module.policy, "forward"),
                            (pl_module, "configure_gradient_clipping")]:  # fmt: skip
            delattr(owner, name)

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch.opens_rollout:
            if self._compares_memory:
                memory.release()
            memory.restart()
            self._watch.seconds = {}
            self._start, self._held = time.perf_counter(), memory.resident()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if "rollout" in outputs:
            self._generate = outputs["rollout"].seconds["generate"]
        if "update" in outputs:
            seconds = time.perf_counter() - self._start
            parts = {part: self._watch.seconds.get(part, 0.0) for part in (*MODEL, "gradient_norm")}
            if not parts["decode"]:
                raise RuntimeError("the engine was not seen to call the model, so nothing can be said about its share")
            if self._compares_memory:
                self._above = memory.peak() - self._held
            outside = seconds - sum(parts[part] for part in MODEL)
            self.measured.append(
                {
                    "seconds": seconds,
                    "generate": self._generate,
                    "above_bytes": float(self._above),
                    "outside": outside,
                    "outside_share": outside / seconds,
                    "sampling": self._generate - parts["decode"],
                    **parts,
                }
            )
