"""How weights are spread over processes. Whatever touches the inside of a strategy is here, and nowhere else.

``fsdp2`` is registered with Lightning when this package is imported.
"""

from lightning.pytorch.strategies import StrategyRegistry

from grpo_lightning.strategies.fsdp2 import FSDP2Strategy

if FSDP2Strategy.strategy_name not in StrategyRegistry:
    StrategyRegistry.register(
        FSDP2Strategy.strategy_name,
        FSDP2Strategy,
        description="weights, gradients and optimizer sharded over all processes",
    )
