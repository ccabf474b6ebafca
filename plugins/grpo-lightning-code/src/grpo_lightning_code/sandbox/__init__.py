"""Running Python that nobody has read: :func:`run` is the door, from the trainer's side.

``limits`` says what a run may use, ``visible`` which paths it sees, ``private_uid`` which user it is, ``pump`` moves its
streams, ``outcome`` is what came of it, ``availability`` proves on this machine that the limits hold. The other side
of the wall is the package ``inside``.
"""

from __future__ import annotations

from grpo_lightning_code.sandbox.availability import SandboxUnavailable, require_sandbox
from grpo_lightning_code.sandbox.limits import Limits
from grpo_lightning_code.sandbox.outcome import Outcome, SandboxError, Status
from grpo_lightning_code.sandbox.run import Job, run

__all__ = ["Job", "Limits", "Outcome", "SandboxError", "SandboxUnavailable", "Status", "require_sandbox", "run"]
