"""What every policy must do with text, before it has weights, and with its weights and its reference."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from grpo_lightning.policies.base import Policy, Weights
from grpo_lightning.registry import constructor_parameters
from grpo_lightning.testing.check import Nonconformity, Specimen, checks, expect
from grpo_lightning.testing.scored_rows import loaded, scored_rows
from grpo_lightning.testing.tiny_model import load, move, prompts

CLOSE = 1e-5
"""Difference of log-probabilities under weights that are the same."""
TEXTS = ("15", "no way", "a+b = c", "X")


def _log_probs(policy: Policy, specimen: Specimen, weights: Weights = "current") -> Tensor:
    with torch.no_grad():
        found: Tensor = policy(scored_rows(policy, specimen), weights=weights)["log_prob"]
    return found.reshape(-1)


def _apart(left: Tensor, right: Tensor) -> float:
    return float((left - right).abs().max()) if left.shape == right.shape else float("inf")


def check_prepares_before_it_loads(specimen: Specimen) -> None:
    """After ``prepare``, without any weights, it knows its context, its stop ids, and how to encode and decode."""
    policy: Policy = specimen.make()
    must = "prepare() resolves everything that needs no weights, so that faults show before they load"
    mend = "read tokenizer and configuration in prepare(), and build modules in load()"
    try:
        policy.prepare()
        policy.prepare()
        length, stops = policy.context_length, policy.stop_ids
        target = policy.encode_target("15")
        policy.encode(prompts(specimen, 1)[0])
        policy.decode(target.tolist())
        policy.check_turns()
    except Exception as error:  # whatever lacks
        raise Nonconformity(f"{must}. Found: {type(error).__name__}: {error}. To mend it: {mend}.") from error
    count = sum(1 for _ in policy.parameters())
    expect(count == 0, must, f"{count} parameters before load()", mend)
    good = isinstance(length, int) and length > 0 and isinstance(stops, frozenset)
    expect(good, "context_length is a positive number and stop_ids a frozenset", f"{length!r}, {stops!r}", mend)


def check_loads_once(specimen: Specimen) -> None:
    """``load`` builds weights that train; called again it changes nothing."""
    policy = loaded(specimen)
    before = list(policy.parameters())
    values = [each.detach().clone() for each in before]
    trained = any(each.requires_grad for each in before)
    expect(trained, "load() builds parameters that train", f"{len(before)}, none of which requires a gradient",
           "make modules attributes of the policy, and leave requires_grad on")  # fmt: skip
    policy.load()
    after = list(policy.parameters())
    same = len(after) == len(before) and all(one is other for one, other in zip(before, after, strict=True))
    same = same and all(torch.equal(one, each) for one, each in zip(values, after, strict=True))
    expect(same, "load() called again does nothing: the optimizer holds these parameters",
           "other parameters, or other values", "return at once where weights are there")  # fmt: skip


def check_text_comes_back(specimen: Specimen) -> None:
    """Text that is encoded as an answer decodes to itself, and encodings are int64 sequences."""
    policy: Policy = specimen.make()
    policy.prepare()
    prompt = prompts(specimen, 1)[0]
    encoded = {
        "encode": policy.encode(prompt),
        "encode_target": policy.encode_target("15"),
        "encode_observation": policy.encode_observation(prompt, "next?", policy.encode_target("15").tolist()),
    }
    for name, steps in encoded.items():
        good = steps.dtype == torch.int64 and steps.dim() == 1 and steps.shape[0] > 0
        found = f"shape {tuple(steps.shape)} of {steps.dtype}"
        expect(good, f"{name}() gives int64 steps, at least one", found, "return torch.tensor(ids, dtype=torch.int64)")
    for text in TEXTS:
        target = policy.encode_target(text).tolist()
        back = policy.decode(target)
        must = "decode() gives back what encode_target() was given, without the end of the turn"
        expect(back == text, must, f"{back!r} for {text!r}", "leave out in decode() what ended the turn, nothing else")
        ends = not policy.stop_ids or target[-1] in policy.stop_ids
        must = "The steps of an answer end the turn, so that the policy learns to"
        expect(ends, must, f"the last of {target} is not in {sorted(policy.stop_ids)}", "append a stop id")


def check_reference_stays(specimen: Specimen) -> None:
    """After ``freeze_reference`` the reference is the policy exactly; it stays when the policy moves."""
    policy = loaded(specimen)
    policy.freeze_reference()
    frozen = _log_probs(policy, specimen, "reference")
    rows = scored_rows(policy, specimen)
    with torch.no_grad():
        divergence = float(policy(rows, ("exact_kl",))["exact_kl"].abs().max())
    worst = max(_apart(frozen, _log_probs(policy, specimen)), divergence)
    expect(
        worst == 0.0,
        "Where the reference has just been frozen the policy is at distance exactly 0 from it",
        f"{worst:.3g}",
        "copy the weights of now, and score both in one way",
    )
    move(policy)
    gone = _apart(frozen, _log_probs(policy, specimen))
    stayed = _apart(frozen, _log_probs(policy, specimen, "reference"))
    expect(
        stayed <= CLOSE and gone > 1e-3,
        "The reference keeps its weights while the policy is trained",
        f"the policy moved by {gone:.3g} and the reference by {stayed:.3g}",
        "copy the weights in freeze_reference() (copy.deepcopy), and keep the copy out of the policy's parameters",
    )


def check_reference_comes_back(specimen: Specimen) -> None:
    """A reference that is written is the same in a policy that takes it over."""
    policy = loaded(specimen)
    move(policy, seed=2)
    policy.freeze_reference()
    state = policy.reference_state()
    if state is None:
        return
    kept = {name: tensor.detach().clone() for name, tensor in state.items()}
    wanted = _log_probs(policy, specimen, "reference")
    other = loaded(specimen)
    other.load_reference(kept)
    worst = _apart(wanted, _log_probs(other, specimen, "reference"))
    expect(
        worst <= CLOSE,
        "load_reference() takes over what reference_state() gave, so that a resumed run measures from the same reference",
        f"log-probabilities that differ by {worst:.3g}",
        "give all tensors of the reference in reference_state(), and load them all",
    )


def check_weights_come_back(specimen: Specimen) -> None:
    """Weights that are saved are the same in a policy that loads them."""
    policy = loaded(specimen)
    move(policy, seed=3)
    state = {name: tensor.detach().clone() for name, tensor in policy.state_dict().items()}
    other = loaded(specimen)
    other.load_state_dict(state)
    worst = _apart(_log_probs(policy, specimen), _log_probs(other, specimen))
    expect(
        worst <= CLOSE,
        "state_dict() holds the weights: a policy that loads them scores the same",
        f"log-probabilities that differ by {worst:.3g}",
        "keep every weight in a parameter or a persistent buffer of a submodule, and override neither method",
    )


def check_exports_what_it_is(specimen: Specimen) -> None:
    """What ``export`` writes can be loaded again, where the policy takes the place of a model, and scores the same."""
    policy = loaded(specimen)
    move(policy, seed=4)
    with tempfile.TemporaryDirectory(prefix="grpo-lightning-export-") as name:
        folder = Path(name) / "model"
        policy.export(folder)
        files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        mend = "write weights, configuration and tokenizer as the family's from_pretrained reads them"
        expect(bool(files), "export() writes the policy to the folder that it is given", "no file there", mend)
        if "model" not in constructor_parameters(specimen.component):
            return
        again = replace(specimen, arguments={**specimen.arguments, "model": str(folder)})
        try:
            other: Policy = again.make()
            load(other)
        except Exception as error:  # whatever its loader raises
            must = "What export() writes is loaded by the policy itself, with model set to the folder"
            raise Nonconformity(f"{must}. Found: {type(error).__name__}: {error}. To mend it: {mend}.") from error
        worst = _apart(_log_probs(policy, specimen), _log_probs(other, specimen))
    expect(worst <= CLOSE, "An exported policy scores as the one that was exported",
           f"log-probabilities that differ by {worst:.3g}", "write the weights of now, adapters merged into them")  # fmt: skip


CHECKS = checks(
    check_prepares_before_it_loads,
    check_loads_once,
    check_text_comes_back,
    check_reference_stays,
    check_reference_comes_back,
    check_weights_come_back,
    check_exports_what_it_is,
)
