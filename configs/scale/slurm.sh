#!/bin/bash
# sbatch configs/scale/slurm.sh mine.yaml
#
# Two machines of eight GPUs. Five minutes before the job's time is over, SLURM sends SIGUSR1: the run saves, leaves, and goes back
# into the queue; the same line goes on with it. A job that is preempted gets SIGTERM, which saves and leaves too.
#SBATCH --job-name=grpo
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
srun python -m grpo_lightning fit --config "$1" --run_folder "runs/slurm-$SLURM_JOB_NAME" --resume auto \
  --trainer.accelerator gpu --trainer.num_nodes "$SLURM_NNODES" --trainer.devices 8 --trainer.strategy fsdp2
