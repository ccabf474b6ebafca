"""Aggregations: how the terms of an update become one scalar.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.aggregations.base.Aggregation`, its
name in ``builtins.py``, a line in this file, and a test in ``tests/unit/aggregations``. A pip package registers its
own with the hook ``grpo_register_aggregation``.
"""

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.aggregations.constant_length import ConstantLength
from grpo_lightning.aggregations.prompt_mean import PromptMean
from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
from grpo_lightning.aggregations.sequence_mean_token_sum import SequenceMeanTokenSum
from grpo_lightning.aggregations.token_mean import TokenMean
from grpo_lightning.aggregations.token_sum import TokenSum

__all__ = [
    "Aggregation",
    "ConstantLength",
    "PromptMean",
    "SequenceMeanTokenMean",
    "SequenceMeanTokenSum",
    "TokenMean",
    "TokenSum",
    "UpdateRows",
]
