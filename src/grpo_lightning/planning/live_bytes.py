"""Counting the bytes of tensors that have shapes and no numbers, while the library's own code runs on them."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override

WEIGHTS, REFERENCE, GRADIENTS, OPTIMIZER = "weights", "reference", "gradients", "optimizer"
SAMPLING_WEIGHTS, CAST_WEIGHTS, CACHE, LOGITS, ACTIVATIONS = (
    "sampling weights", "cast weights", "cache", "logits", "activations",
)  # fmt: skip
PARTS = (WEIGHTS, REFERENCE, GRADIENTS, OPTIMIZER, SAMPLING_WEIGHTS, CAST_WEIGHTS, CACHE, LOGITS, ACTIVATIONS)
"""What bytes are for, in the order in which they are told."""

_MADE_BY = {
    "grpo_lightning.engines.key_values": CACHE,
    "grpo_lightning.engines.rollout_weights": SAMPLING_WEIGHTS,
    "grpo_lightning.engines.draw": LOGITS,
    "grpo_lightning.functional.log_probs": LOGITS,
    "grpo_lightning.functional.linear_head.gradient": LOGITS,
    "grpo_lightning.functional.linear_head.sums": LOGITS,
    "grpo_lightning.functional.linear_head.tiles": LOGITS,
}
"""What tensors are for that a module of this library makes while another part is counted."""
_FLOATING_FACTORIES = {"empty", "empty_strided", "zeros", "ones", "full", "rand", "randn"}


class LiveBytes(TorchDispatchMode):
    """Runs what asks for numbers on shapes alone, and knows at any moment how many bytes of tensors are alive.

    Tensors without numbers come out of operations that one goes into, and of those that make floating-point tensors from
    nothing. What counts and indexes (integers, booleans) is really computed, so that code may look at it. Where code looks at
    a number that is not there, it sees 1, or true, and every element counts as nonzero: what is asked before a pass of rows
    that all train. Only what operations return is seen, not what they need inside.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.live: Counter[str] = Counter()
        """Bytes by part, now."""
        self.peak: Counter[str] = Counter()
        """Bytes by part when most were alive since :meth:`restart`."""
        self._most = 0
        self._total = 0
        self._part = ACTIVATIONS
        self._seen: dict[int, tuple[Any, int, list[str]]] = {}

    @contextmanager
    def counting(self, part: str) -> Iterator[None]:
        """What is made inside is for ``part``, but for what its maker says."""
        before, self._part = self._part, part
        try:
            yield
        finally:
            self._part = before

    def restart(self) -> None:
        """Look for the peak from now on."""
        self.peak, self._most = Counter(self.live), self._total

    def rename(self, tensor: Tensor, part: str) -> None:
        """What ``tensor`` keeps alive is for ``part``."""
        entry = self._seen.get(id(tensor.untyped_storage()))
        if entry is not None and entry[2][0] != part:
            self.live[entry[2][0]] -= entry[1]
            self.live[part] += entry[1]
            entry[2][0] = part

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        result = self._run(func, args, named)
        cast = func.overloadpacket.__name__ == "_to_copy" and self._is_weight(args[0])
        for leaf in tree_leaves(result):
            if isinstance(leaf, FakeTensor):
                self._count(leaf, cast)
        return result

    def _is_weight(self, tensor: Any) -> bool:
        entry = self._seen.get(id(tensor.untyped_storage()))
        return entry is not None and entry[2][0] == WEIGHTS

    def _run(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        fakes = any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, named)))
        name = func.overloadpacket.__name__
        if not fakes:
            dtype = named.get("dtype") or torch.get_default_dtype()
            if name in _FLOATING_FACTORIES and dtype.is_floating_point and not _has_tensor(args):
                with self.fake:
                    return func(*args, **named)
            return func(*args, **named)
        if name == "_local_scalar_dense":
            return _one(args[0].dtype)
        if name == "equal":
            return True
        if name == "nonzero" and args[0].dim() == 1:
            return torch.arange(args[0].shape[0])[:, None]
        with self.fake:
            return func(*args, **named)

    def _count(self, tensor: Tensor, cast: bool) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._seen:
            return
        part = [CAST_WEIGHTS if cast and self._part == ACTIVATIONS else self._maker()]
        size = storage.nbytes()
        self._seen[key] = (weakref.ref(storage, self._freed(key)), size, part)
        self._total += size
        self.live[part[0]] += size
        if self._total > self._most:
            self._most = self._total
            self.peak = Counter(self.live)

    def _freed(self, key: int) -> Callable[[Any], None]:
        def free(_: Any) -> None:
            _, size, part = self._seen.pop(key)
            self._total -= size
            self.live[part[0]] -= size

        return free

    def _maker(self) -> str:
        frame = sys._getframe(1)
        while frame is not None:
            part = _MADE_BY.get(frame.f_globals.get("__name__", ""))
            if part is not None:
                return part
            frame = frame.f_back  # type: ignore[assignment]
        return self._part


def _has_tensor(args: tuple[Any, ...]) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in tree_leaves(args))


def _one(dtype: torch.dtype) -> float | int | bool:
    if dtype == torch.bool:
        return True
    return 1.0 if dtype.is_floating_point else 1
