"""What can be taken for granted of a model, found out by trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grpo_lightning.policies.layout import padded, shared
from grpo_lightning.types import Ragged, Rollouts


def head_is_apart(model: Any, ids: Tensor) -> bool:
    """Whether logits are the head's output at the last hidden states, and nothing else.

    Hidden states are magnified at the head's door, so that logits of a hundred come out: what bends large logits (soft
    capping) is next to nothing at the small ones of a fresh model, and would show only as training goes on.

    Args:
        model: A causal language model of transformers.
        ids: [rows, width] int64.
    """
    head, seen = model.get_output_embeddings(), []

    def magnify(module: Any, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden, *rest = arguments
        largest = nn.functional.linear(hidden, module.weight).abs().max().clamp(min=torch.finfo(hidden.dtype).tiny)
        seen.extend([hidden, hidden * (100.0 / largest)])
        return seen[-1], *rest

    handle = head.register_forward_pre_hook(magnify)
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    finally:
        handle.remove()
    if len(seen) != 2:
        return False
    plain = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    pairs = [(plain, seen[0], 1e-4), (logits, head(seen[1]), 1e-2)]
    return all(torch.allclose(one.double(), two.double(), rtol=1e-3, atol=atol) for one, two, atol in pairs)


def keeps_rows_apart(model: Any, ids: Tensor) -> bool:
    """Whether two rows that are packed have the logits that they have in a batch, and the second knows nothing of the first.

    Args:
        model: A causal language model of transformers.
        ids: [2, width] int64.
    """
    rows, width = ids.shape
    positions = torch.arange(width, device=ids.device).repeat(rows)[None]

    def packed() -> Tensor:
        return _logits(model(input_ids=ids.reshape(1, -1), position_ids=positions, use_cache=False))[0]

    plain = _logits(model(input_ids=ids, use_cache=False)).flatten(0, 1)
    first = torch.arange(rows * width) < width
    return not _differs(packed(), plain) and not _knows(model, packed, slice(width, None), first)


def shares_prompts(model: Any, ids: Tensor) -> str:
    """Why rows cannot follow a prompt that is run once for all of them; empty if they can.

    Tried on two prompts of different lengths with two completions each: their logits must be those that they have in rows
    of their own, and the last row must know nothing of the rows before it, nor of another prompt.

    Args:
        model: A causal language model of transformers.
        ids: [2, width] int64, width at least 4.
    """
    half = ids.shape[1] // 2
    prompts = [ids[0, :half], ids[1, : half - 1]]
    actions = [ids[0, half:], ids[0, half:].flip(0), ids[1, half:], ids[1, half:].flip(0)]
    rows = _rows(prompts, [0, 0, 1, 1], actions)
    inputs, written = shared(rows, ids.device), actions[0].shape[0]

    def together() -> Tensor:
        return inputs.outputs(model, _logits)

    last = inputs.parts[-1]
    hidden = torch.arange(last.end) < last.start
    hidden[last.middle : last.middle + last.rows[0]] = True
    try:
        if _knows(model, together, slice(-written, None), hidden):
            return "a row shows in the rows behind it"
        if _differs(together(), padded(rows, ids.device).outputs(model, _logits)):
            return "its logits differ from those of rows by themselves"
    except Exception as error:  # whatever a model does to attention that is not its own
        return str(error) or type(error).__name__
    return ""


def _differs(found: Tensor, plain: Tensor) -> bool:
    """Whether logits differ by more than a layout rounds differently."""
    rounding = 4 * torch.finfo(plain.dtype).eps * plain.abs().max()
    return bool((found - plain).abs().max() > torch.maximum(rounding, 1e-3 * plain.abs().max()))


def _knows(model: Any, run: Callable[[], Tensor], outputs: slice, tokens: Tensor) -> bool:
    """Whether ``run()[outputs]`` depends on one of ``tokens`` of the flat sequence, [N] bool.

    The gradient by their embeddings is exactly 0 where there is no path. On a fresh model, what leaks from row to row (through
    a convolution, say) would be lost in the rounding of the outputs themselves.
    """
    seen: list[Tensor] = []

    def leaf(module: Any, arguments: Any, output: Tensor) -> Tensor:
        seen.append(output.detach().requires_grad_())
        return seen[-1]

    handle = model.get_input_embeddings().register_forward_hook(leaf)
    try:
        with torch.enable_grad():
            gradient = torch.autograd.grad(run()[outputs].square().sum(), seen[0])[0]
    finally:
        handle.remove()
    return bool((gradient[0, tokens.to(gradient.device)] != 0).any())


def _logits(output: Any) -> Tensor:
    logits: Tensor = output.logits
    return logits


def _rows(prompts: Sequence[Tensor], prompt_R: Sequence[int], actions: Sequence[Tensor]) -> Rollouts:
    steps, index = sum(map(len, actions)), torch.arange(len(actions))
    return Rollouts(
        prompts=Ragged.from_list([prompt.cpu() for prompt in prompts], torch.int64),
        prompt_R=torch.tensor(prompt_R),
        group_R=index,
        member_R=index,
        trajectory_R=index,
        attempt_R=index,
        finish_R=index,
        temperature_R=torch.ones(len(actions)),
        version_R=index,
        actions=Ragged.from_list([action.cpu() for action in actions], torch.int64),
        trainable_S=torch.ones(steps, dtype=torch.bool),
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=torch.zeros(steps),
    )
