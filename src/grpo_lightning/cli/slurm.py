"""Putting the job of a run back into SLURM's queue."""

from __future__ import annotations

import logging
import os
import signal
import subprocess

log = logging.getLogger(__name__)


def requeue(signum: int) -> None:
    """Have SLURM start this job again, if it announced the job's end by ``SIGUSR1`` (``sbatch --signal=USR1@300``)."""
    job = os.environ.get("SLURM_JOB_ID")
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    if signum != signal.SIGUSR1 or job is None:
        return
    name = f"{array}_{task}" if array and task else job
    try:
        done = subprocess.run(["scontrol", "requeue", name], capture_output=True, text=True, check=False)
    except OSError as error:
        log.error("the job %s is not put back into the queue: %s", name, error)
        return
    if done.returncode:
        log.error("the job %s is not put back into the queue: %s", name, done.stderr.strip())
