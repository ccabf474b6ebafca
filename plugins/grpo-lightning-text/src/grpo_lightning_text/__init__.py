"""Rewards that read text: overlap with references, repetition, length, language, JSON, boxes, intervals and sets.

To add one: a file with a subclass of ``grpo_lightning.rewards.base.Reward``, named after it; then the list below, a test, and
a row in the README. ``answers`` finds the part of a completion that is looked at, ``numbers`` and ``json_text`` read it.
"""

from __future__ import annotations

from grpo_lightning import hookimpl
from grpo_lightning.rewards.base import Reward
from grpo_lightning_text.bleu import BLEU as BLEU
from grpo_lightning_text.box_giou import BoxGIoU as BoxGIoU
from grpo_lightning_text.box_iou import BoxIoU as BoxIoU
from grpo_lightning_text.chrf import ChrF as ChrF
from grpo_lightning_text.edit_similarity import EditSimilarity as EditSimilarity
from grpo_lightning_text.interval_iou import IntervalIoU as IntervalIoU
from grpo_lightning_text.json_fields import JSONFields as JSONFields
from grpo_lightning_text.language import Language as Language
from grpo_lightning_text.length_band import LengthBand as LengthBand
from grpo_lightning_text.repetition import Repetition as Repetition
from grpo_lightning_text.set_f1 import SetF1 as SetF1

GRPO_LIGHTNING_API = 1


@hookimpl
def grpo_register_reward() -> list[type[Reward]]:
    return [
        BLEU,
        BoxGIoU,
        BoxIoU,
        ChrF,
        EditSimilarity,
        IntervalIoU,
        JSONFields,
        Language,
        LengthBand,
        Repetition,
        SetF1,
    ]
