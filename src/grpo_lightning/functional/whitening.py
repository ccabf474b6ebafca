"""Values in standard deviations from their mean, each counted so many times."""

from __future__ import annotations

from torch import Tensor


def whitened(values_R: Tensor, counts_R: Tensor, *, ddof: int, eps: float) -> Tensor:
    """``(x_i - mean) / (std + eps)`` with ``mean = sum c x / C``, ``std^2 = sum c (x - mean)^2 / (C - ddof)``, ``C = sum c``.

    With the number of steps of a row as its count, these are the moments over steps, each of which has its row's value.

    Args:
        values_R: [R] float64.
        counts_R: [R] int64: how often each value counts; 0 leaves it out of both moments.
        ddof: Taken from ``C`` in the standard deviation.
        eps: Added to the standard deviation.

    Returns:
        [R] float64, for values that do not count too; 0 where the standard deviation is 0 or ``C <= ddof``.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.whitening import whitened
        >>> whitened(torch.tensor([1.0, 3.0, 9.0]).double(), torch.tensor([1, 1, 0]), ddof=0, eps=0.0).tolist()
        [-1.0, 1.0, 7.0]
    """
    weights_R = counts_R.to(values_R.dtype)
    total = weights_R.sum()
    if total <= ddof:
        return values_R.new_zeros(values_R.shape)
    off_R = values_R - (weights_R * values_R).sum() / total
    # The mean once more, of what is left: it takes away what rounding did to the first one.
    off_R = off_R - (weights_R * off_R).sum() / total
    std = ((weights_R * off_R**2).sum() / (total - ddof)).sqrt()
    return off_R / (std + eps) if std > 0 else values_R.new_zeros(values_R.shape)
