"""The phases of a run."""

from __future__ import annotations

PREFILL = "prefill"
DECODE = "decode"
GENERATE = "generate"
REWARD = "reward"
OLD_LOG_PROBS = "old_log_probs"
REFERENCE_LOG_PROBS = "reference_log_probs"
CREDIT = "credit"
AUXILIARY_ROWS = "auxiliary_rows"
PREVIEW = "preview"
FORWARD = "forward"
HEAD = "head"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
EVALUATION = "evaluation"
CHECKPOINT = "checkpoint"
LOGGING = "logging"
REST = "rest"

PHASES: dict[str, str] = {
    PREFILL: "the engine runs the prompts",
    DECODE: "the engine writes, token by token",
    GENERATE: "the rest of playing: requests, environments, episodes; all of it for an engine that does not tell more",
    REWARD: "the run waits for rewards",
    OLD_LOG_PROBS: "log-probabilities of the current policy before the updates",
    REFERENCE_LOG_PROBS: "log-probabilities of the reference",
    CREDIT: "the rest of a rollout: drawing prompts, advantages, selecting, dealing, waiting for other ranks",
    AUXILIARY_ROWS: "making the rows of the warm-up and of auxiliary losses",
    PREVIEW: "the pass over a whole update that some losses and corrections ask for",
    FORWARD: "the training forward and the loss",
    HEAD: "of that, logits, log-probabilities and functionals",
    BACKWARD: "the backward pass",
    OPTIMIZER: "norm and check of the gradient, clipping, the step",
    EVALUATION: "validation sets, completed and scored",
    CHECKPOINT: "writing checkpoints",
    LOGGING: "reducing and writing metrics, samples, the progress line",
    REST: "all that is in no phase",
}
"""What each phase holds, in the order of the table."""
WHOLE = frozenset({REWARD, OLD_LOG_PROBS, REFERENCE_LOG_PROBS, PREVIEW, BACKWARD, EVALUATION, CHECKPOINT})
"""Phases that take in whatever happens inside them: the decoding of an evaluation is evaluation."""
