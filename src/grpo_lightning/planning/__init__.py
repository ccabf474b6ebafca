"""What a run will need, before it is launched: memory of each process by part and phase, and tokens of a step."""

from grpo_lightning.planning.advice import Change as Change
from grpo_lightning.planning.advice import changes as changes
from grpo_lightning.planning.choice import Choice as Choice
from grpo_lightning.planning.plan import Plan as Plan
from grpo_lightning.planning.plan import make_plan as make_plan
