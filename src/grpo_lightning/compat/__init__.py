"""Settings under which a run computes what it computed in another system.

To add one: a file with a ``Preset`` named after the system, and its line in ``presets.py``.
"""

from grpo_lightning.compat.preset import Departure as Departure
from grpo_lightning.compat.preset import Followed as Followed
from grpo_lightning.compat.preset import Preset as Preset
from grpo_lightning.compat.presets import PRESETS as PRESETS
from grpo_lightning.compat.presets import compat as compat
