"""What each pair of values adds to a covariance."""

from __future__ import annotations

from torch import Tensor


def covariances(first_S: Tensor, second_S: Tensor) -> Tensor:
    """[S] ``(x - mean x) (y - mean y)``: each pair's part in the covariance, which is the mean of these parts.

    Where all ``x`` or all ``y`` are equal every part is exactly 0.

    Args:
        first_S: [S] ``x``, float64.
        second_S: [S] ``y``, float64.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.covariance import covariances
        >>> covariances(torch.tensor([0.0, 2.0]).double(), torch.tensor([-3.0, -1.0]).double()).tolist()
        [1.0, 1.0]
    """
    return _centered(first_S) * _centered(second_S)


def _centered(values_S: Tensor) -> Tensor:
    rough_S = values_S - values_S.mean()
    # The second pass takes out the rounding of the first mean, so that equal values have deviation 0 exactly.
    return rough_S - rough_S.mean()
