"""What Lightning says about every run, left out where it says nothing about this one."""

from __future__ import annotations

import logging
import warnings

MESSAGES = (
    ".*LightningCLI's args parameter.*",
    ".*does not have many workers.*",
    ".*exists and is not empty.*",
    ".*GPU available but not used.*",
    ".*It is recommended to use `self.log.*sync_dist=True.*",
    ".*when using `ckpt_path`, callbacks used to create.*",
    ".*You have overridden `transfer_batch_to_device`.*",
    ".*isinstance\\(treespec, LeafSpec\\).*",
    ".*`past_key_values` is deprecated.*",
)


def quiet_lightning() -> None:
    """Keep Lightning's warnings, without its greetings and without warnings about what is so on purpose."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in MESSAGES:
        warnings.filterwarnings("ignore", message=message)
