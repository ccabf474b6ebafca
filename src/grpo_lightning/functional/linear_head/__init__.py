"""Functionals of a plain linear head's distributions, with a gradient of their own, without all logits at once."""

from grpo_lightning.functional.linear_head.gradient import matmul_type as matmul_type
from grpo_lightning.functional.linear_head.gradient import tiled_functionals as tiled_functionals
from grpo_lightning.functional.linear_head.tiles import Side as Side
from grpo_lightning.functional.linear_head.tiles import Steps as Steps
