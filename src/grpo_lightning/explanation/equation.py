"""The equation of a run, assembled from the equations of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from grpo_lightning.component import Component
from grpo_lightning.explanation.warnings import contradictions
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.rewards.composer import counts, entry_name

if TYPE_CHECKING:
    from grpo_lightning.module import GRPOModule
    from grpo_lightning.settings import AuxiliaryTerm

TERMS = {"step": ("l_it", r"\ell_{i,t}"), "update": ("l_it", r"\ell_{i,t}"), "sequence": ("l_i", r"\ell_i"),
         "group": ("l_g(i)", r"\ell_{g(i)}")}  # fmt: skip
"""Name of a policy term by the scope of its loss, in text and in LaTeX."""
CLIPPING = ("clipped", "gspo", "gspo_token", "luspo", "gmpo", "clip_cov")
"""Losses whose ratio is to the old policy."""
SHARED = {
    "i, t, g": "row (one completion), trainable step of the row, group of the row",
    "r_i": "reward of the row",
    "pi_theta": "the policy being trained",
    "pi_old": "the policy at the start of the rollout's updates",
    "mu": "the policy that sampled, with temperature and support",
    "rho_mu_it": "pi_theta(y_it) / mu(y_it)",
    "pi_ref": "the reference policy, as it was when GRPO began",
    "rho_it": "pi_theta(y_it) / pi_old(y_it)",
    "d_it": "log pi_theta(y_it) - log pi_ref(y_it)",
    "sg": "without gradient",
}
"""Symbols that every equation shares."""


@dataclass(frozen=True)
class Part:
    """One line of an explanation."""

    role: str
    """What the part is for: ``policy term``, ``advantage``, ..."""
    name: str
    """Registered name of the component; empty if it is none."""
    formula: Formula


@dataclass(frozen=True)
class Explanation:
    """What is optimised."""

    objective: Formula
    """What is minimised in an update."""
    parts: list[Part]
    symbols: dict[str, str]
    """Meaning of the symbols that occur."""
    sources: list[str]
    """Papers, each once."""
    warnings: list[str]
    notes: list[str] = field(default_factory=list)
    """Facts that are no contradictions: what is counted, what is run."""


def explain(module: GRPOModule) -> Explanation:
    """The equation that a module optimises, from the equations of its parts. Nothing is loaded.

    Args:
        module: The module; its weights need not be there.
    """
    parts = list(_parts(module))
    symbols: dict[str, str] = {}
    for part in parts:
        for symbol, meaning in part.formula.symbols.items():
            other = symbols.get(symbol, meaning) != meaning
            symbols[f"{symbol} ({part.name})" if other else symbol] = meaning
    objective = _objective(module)
    shown = " ".join([objective.text, *(part.formula.text for part in parts), *symbols.values()])
    shared = {name: meaning for name, meaning in SHARED.items() if name not in symbols and _occurs(name, shown)}
    shared = {name: SHARED[name] for name in SHARED if name in shared or _occurs(name, " ".join(shared.values()))}
    sources = list(dict.fromkeys(source for part in parts for source in part.formula.sources))
    return Explanation(objective, parts, shared | symbols, sources, contradictions(module), _notes(module))


def _occurs(names: str, text: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names.split(", "))


def _objective(module: GRPOModule) -> Formula:
    objective = module.objective
    text, latex = _left(objective.loss, *TERMS[objective.loss.scope])
    if objective.correction is not None:
        weight, latex_weight = _left(objective.correction, "c_it", "c_{i,t}")
        text, latex = f"{weight} {text}", f"{latex_weight}\\, {latex}"
    if objective.kl_in_loss and objective.kl is not None:
        if objective.kl_controller is not None:
            text, latex = f"{text} + beta k_it", f"{latex} + \\beta\\, k_{{i,t}}"
        else:
            beta = objective.kl.weight
            text, latex = f"{text} + {number(beta)} k_it", f"{latex} + {latex_number(beta)}\\, k_{{i,t}}"
    if objective.entropy is not None:
        bonus = objective.entropy.formula()
        text, latex = f"{text} - {bonus.text.lstrip('-')}", f"{latex} - {bonus.latex.lstrip('-')}"
    before = _formula(objective.aggregation, "sum_i sum_t w_i", r"\sum_i \sum_t w_i")
    text, latex = f"{before.text} [ {text} ]", f"{before.latex} \\left[ {latex} \\right]"
    terms = module.auxiliary
    taken = [(name, term) for name, term in terms.items() if term.complement]
    if taken:
        text = f"(1 - {' - '.join(_mu(n, t)[0] for n, t in taken)}) {text}"
        latex = f"(1 - {' - '.join(_mu(n, t)[1] for n, t in taken)}) {latex}"
    for name, term in terms.items():
        text, latex = (
            f"{text} + {_mu(name, term)[0]} L_{name}",
            f"{latex} + {_mu(name, term)[1]} \\mathcal L_{{{_tex(name)}}}",
        )
    return Formula(f"L(theta) = {text}", f"\\mathcal L(\\theta) = {latex}")


def _mu(name: str, term: AuxiliaryTerm) -> tuple[str, str]:
    changes = term.warmup_updates > 0 or term.final_weight not in (None, term.weight)
    return (f"mu_{name}", f"\\mu_{{{_tex(name)}}}") if changes else _both(term.weight)


def _both(value: float) -> tuple[str, str]:
    return number(value), latex_number(value)


def _parts(module: GRPOModule) -> Iterator[Part]:
    objective = module.objective
    term, latex = TERMS[objective.loss.scope]
    yield _part("policy term", objective.loss, term, latex)
    if objective.correction is not None:
        yield _part("correction", objective.correction, "c_it", "c_{i,t}")
    left = ("A_it", "A_{i,t}") if module.advantage.per == "step" else ("A_i", "A_i")
    yield _part("advantage", module.advantage, *left)
    for transform in module.transforms:
        yield _part("then", transform, *left)
    yield Part("reward", "", _reward(module))
    if module.kl is not None and module.kl.weight > 0:
        yield _part("KL", module.kl.estimator, "k_it", "k_{i,t}")
        if objective.kl_controller is not None:
            yield Part("KL coefficient", "", objective.kl_controller.formula())
    if objective.entropy is not None:
        bonus = objective.entropy.formula()
        yield Part(
            "entropy",
            "",
            Formula(
                "H_it = -sum_v pi_theta(v) log pi_theta(v)",
                r"H_{i,t} = -\sum_v \pi_\theta(v) \log \pi_\theta(v)",
                bonus.symbols,
                bonus.sources,
            ),
        )
    yield _part("aggregation", objective.aggregation, "sum_i sum_t w_i", r"\sum_i \sum_t w_i")
    for name, beside in module.auxiliary.items():
        yield _renamed(_part("auxiliary", beside.loss, "L", r"\mathcal L"), name)
        if _mu(name, beside)[0].startswith("mu_"):
            yield Part("its weight", "", _schedule(name, beside))


def _renamed(part: Part, name: str) -> Part:
    """An auxiliary loss under its own name."""
    text, latex = (each.partition("=")[2].strip() for each in (part.formula.text, part.formula.latex))
    formula = replace(part.formula, text=f"L_{name} = {text}", latex=f"\\mathcal L_{{{_tex(name)}}} = {latex}")
    return replace(part, formula=formula)


def _schedule(name: str, term: AuxiliaryTerm) -> Formula:
    rises, last = term.warmup_updates, term.weight if term.final_weight is None else term.final_weight
    first, over = term.weight, term.decay_updates
    start = f"rises to {number(first)} over {rises} updates, then goes" if rises else f"goes from {number(first)}"
    meaning = f"{start} to {number(last)} over {over} updates ({term.decay}) and stays there"
    symbol = f"\\mu_{{{_tex(name)}}}"
    return Formula(
        f"mu_{name} = {number(first)} ... {number(last)}",
        f"{symbol} = {latex_number(first)} \\ldots {latex_number(last)}",
        {f"mu_{name}": meaning},
    )


def _part(role: str, component: Component, text: str, latex: str) -> Part:
    return Part(
        role,
        component.name,
        _formula(component, f"{text} = {component.name}", f"{latex} = \\text{{{_tex(component.name)}}}"),
    )


def _left(component: Component, text: str, latex: str) -> tuple[str, str]:
    """The left-hand side of the component's equation, in text and LaTeX; ``text`` and ``latex`` where it has none."""
    found = component.formula()
    if found is None or "=" not in found.text or "=" not in found.latex:
        return text, latex
    return found.text.partition("=")[0].strip(), found.latex.partition("=")[0].strip()


def _formula(component: Component, text: str, latex: str) -> Formula:
    """The component's own equation; its name where it has none."""
    found: Any = component.formula()
    if isinstance(found, Formula):
        return found
    first = (type(component).__doc__ or "").strip().partition("\n")[0]
    return Formula(text, latex, {component.name: first} if first else {})


def _reward(module: GRPOModule) -> Formula:
    weighted = [entry for entry in module.rewards if counts(entry) and not entry.gate]
    gates = [entry for entry in module.rewards if counts(entry) and entry.gate]
    text = " + ".join(f"{_times(entry.weight)[0]}{entry_name(entry)}_i" for entry in weighted)
    latex = " + ".join(f"{_times(entry.weight)[1]}\\text{{{_tex(entry_name(entry))}}}_i" for entry in weighted)
    if gates:
        text = " ".join([f"({text})" if text else "", *(f"{entry_name(entry)}_i" for entry in gates)]).strip()
        product = "\\, ".join(f"\\text{{{_tex(entry_name(entry))}}}_i" for entry in gates)
        latex = f"\\left({latex}\\right) {product}" if latex else product
    symbols = {}
    if module.kl is not None and module.kl.in_reward:
        beta = ("beta", r"\beta") if module.objective.kl_controller is not None else _both(module.kl.weight)
        text, latex = f"{text} - {beta[0]} sum_t k_it", f"{latex} - {beta[1]} \\sum_t k_{{i,t}}"
        symbols["k_it in the reward"] = (
            "taken with pi_old in place of pi_theta as the rollout was made: it has no gradient"
        )
    if module.advantage.per == "step":
        paid = ", less what it pays for its KL" if symbols else ""
        symbols["r_is"] = f"what step s earned: a turn's reward at its last step, all else at the row's last step{paid}"
    return Formula(f"r_i = {text}", f"r_i = {latex}", symbols)


def _times(weight: float) -> tuple[str, str]:
    """A factor before a name; nothing for 1."""
    return ("", "") if weight == 1 else (f"{number(weight)} ", f"{latex_number(weight)}\\, ")


def _notes(module: GRPOModule) -> list[str]:
    objective = module.objective
    masked = ", rows cut off by a limit left out" if module.generation.mask_truncated else ""
    notes = [f"rows counted: those with a trainable step that the selector {module.selector.name!r} keeps, on all ranks, "
             f"rows of advantage 0 among them{masked}"]  # fmt: skip
    if objective.loss.scope in ("sequence", "group"):
        notes.append(f"the loss has one term a {objective.loss.scope.replace('sequence', 'row')}; it counts as that term at "
                     "each of its steps")  # fmt: skip
    if not objective.runs_silent_rows:
        notes.append("rows of advantage 0 are counted and not run: no term needs them")
    updates = module.epochs_per_rollout * module.updates_per_rollout
    if updates == 1 and objective.loss.name in CLIPPING:
        notes.append(f"a rollout is trained in one update, so pi_theta = pi_old: loss {objective.loss.name!r} neither "
                     "clips nor masks anything")  # fmt: skip
    if objective.needs_preview:
        notes.append("every update begins with a pass over all its rows without gradient")
    if objective.correction is not None and objective.correction.denominator == "remaining":
        notes.append("steps whose correction is 0 leave the normaliser of the policy term")
    return notes


def _tex(name: str) -> str:
    return name.replace("_", r"\_")
