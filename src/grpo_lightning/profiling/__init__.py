"""Where the time, the memory and the operations of a run go: what ``fit --profile`` measures.

Any part may say what it is doing, and how much of it:

    with profiling.phase(profiling.DECODE):
        if profiling.active():
            profiling.count_body(model, lengths_Q, past_Q)

A phase inside another takes its time away from it, so times add up. Without a profiler all of this does nothing and costs
the reading of one global; other threads than the one that trains are not seen. To add one more phase, give it a name and a
sentence in ``phases.py``, a row in ``docs/profiling.md``, and open it where its work is done.
"""

from grpo_lightning.profiling.measuring import (
    active,
    begin,
    count,
    during,
    end,
    phase,
    start,
    stop,
    timed,
)
from grpo_lightning.profiling.passes import count_body, count_head
from grpo_lightning.profiling.phases import (
    AUXILIARY_ROWS,
    BACKWARD,
    CHECKPOINT,
    CREDIT,
    DECODE,
    EVALUATION,
    FORWARD,
    GENERATE,
    HEAD,
    LOGGING,
    OLD_LOG_PROBS,
    OPTIMIZER,
    PHASES,
    PREFILL,
    PREVIEW,
    REFERENCE_LOG_PROBS,
    REST,
    REWARD,
)
from grpo_lightning.profiling.profiler import PhaseRecord, Profiler

__all__ = [
    "AUXILIARY_ROWS",
    "BACKWARD",
    "CHECKPOINT",
    "CREDIT",
    "DECODE",
    "EVALUATION",
    "FORWARD",
    "GENERATE",
    "HEAD",
    "LOGGING",
    "OLD_LOG_PROBS",
    "OPTIMIZER",
    "PHASES",
    "PREFILL",
    "PREVIEW",
    "REFERENCE_LOG_PROBS",
    "REST",
    "REWARD",
    "PhaseRecord",
    "Profiler",
    "active",
    "begin",
    "count",
    "count_body",
    "count_head",
    "during",
    "end",
    "phase",
    "start",
    "stop",
    "timed",
]
