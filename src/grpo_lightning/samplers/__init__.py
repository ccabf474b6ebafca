"""Samplers: how completions are drawn, as a temperature and a support.

To add one more: a file of its own here with a subclass of :class:`~grpo_lightning.samplers.base.Sampler`, its name in
``builtins.py``, a line in this file, and a test in ``tests/unit/samplers`` of its support, its ties and its agreement
with ``generate_arguments``. A pip package registers its own with the hook ``grpo_register_sampler``.
"""

from grpo_lightning.samplers.base import Sampler
from grpo_lightning.samplers.greedy import Greedy
from grpo_lightning.samplers.min_p import MinP
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_k import TopK
from grpo_lightning.samplers.top_p import TopP

__all__ = ["Greedy", "MinP", "Sampler", "Temperature", "TopK", "TopP"]
