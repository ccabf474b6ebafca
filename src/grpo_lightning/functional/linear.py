"""Linear layers in float32 on CPUs: torch gives their products to MKL, which uses half of what some processors have.

On AMD's processors with AVX-512, MKL keeps to narrower instructions. oneDNN, which torch has beside it, does not: products of
the same numbers in another order of summation, at about twice the rate. ``torch.backends.mkldnn.enabled = False`` leaves all
to MKL.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from typing_extensions import override

LEAST_PRODUCT = 1 << 21
"""Multiplications of a product below which oneDNN's start costs more than it gains."""


def linear(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``hidden @ weight.T + bias``, [..., out] of [..., in], with gradient: by oneDNN where :func:`suits`, else by torch."""
    if not suits(hidden, weight):
        return nn.functional.linear(hidden, weight, bias)
    flat = hidden if hidden.dim() == 2 else hidden.flatten(0, -2)
    product: Tensor = _Product.apply(flat, weight)  # type: ignore[no-untyped-call]
    if bias is not None:
        product = product + bias
    return product if hidden.dim() == 2 else product.view(*hidden.shape[:-1], weight.shape[0])


def suits(hidden: Tensor, weight: Tensor) -> bool:
    """Whether a product is one that oneDNN multiplies faster: large, float32, of plain tensors on such a processor."""
    return (
        mkl_is_slow()
        and type(weight) in (Tensor, nn.Parameter)
        and type(hidden) in (Tensor, nn.Parameter)
        and hidden.dtype == weight.dtype == torch.float32
        and hidden.device.type == weight.device.type == "cpu"
        and hidden.dim() >= 2
        and hidden.numel() * weight.shape[0] >= LEAST_PRODUCT
        and not torch.is_autocast_enabled("cpu")
        and torch._C._get_mkldnn_enabled()
    )


@cache
def mkl_is_slow() -> bool:
    """Whether torch multiplies float32 with MKL, which knows this processor's AVX-512 but does not use it."""
    libraries = torch._C.has_mkl and torch._C._has_mkldnn
    return libraries and torch.backends.cpu.get_cpu_capability() == "AVX512" and _vendor() == "AuthenticAMD"


def faster_linears() -> AbstractContextManager[object]:
    """Let :func:`linear` multiply for every linear layer that is called inside; nothing where :func:`mkl_is_slow` is not."""
    return _Linears() if mkl_is_slow() else nullcontext()


class _Product(torch.autograd.Function):
    """``left @ right.T``; its gradients are products of the same kind, which have gradients too."""

    @staticmethod
    @override
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
        return product

    @staticmethod
    @override
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        wants_left, wants_right = ctx.needs_input_grad
        return (
            _Product.apply(upstream, right.t()) if wants_left else None,  # type: ignore[no-untyped-call]
            _Product.apply(upstream.t(), left.t()) if wants_right else None,  # type: ignore[no-untyped-call]
        )


class _Linears(TorchFunctionMode):
    """Calls of ``torch.nn.functional.linear`` go through :func:`linear`."""

    @override
    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # Inside a mode's own function the mode is off.
        return (linear if func is nn.functional.linear else func)(*args, **(kwargs or {}))


def _vendor() -> str:
    """The processor's maker as the processor says it; "" where that is not to be had."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "vendor_id":
                return value.strip()
    # Windows: "AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD".
    return platform.processor().rpartition(", ")[2]
