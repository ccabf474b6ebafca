"""Equations of whole configurations, written out by hand."""

from __future__ import annotations

import pytest

from grpo_lightning import GRPOModule, create
from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.explanation import explain
from grpo_lightning.explanation.page import latex, page
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.settings import AuxiliaryTerm
from helpers.plain_module import module


def part(made: GRPOModule, role: str) -> str:
    (found,) = [each.formula.text for each in explain(made).parts if each.role == role]
    return found


def test_grpo_as_it_comes() -> None:
    made = module(kl=KLTerm(estimator=create("kl", "k2"), weight=0.001))
    assert explain(made).objective.text == "L(theta) = (1/T) sum_i sum_t [ l_it + 0.001 k_it ]"
    assert part(made, "policy term") == "l_it = -min(rho_it A_it, clip(rho_it, 0.8, 1.2) A_it)"
    assert part(made, "advantage") == "A_i = (r_i - mean_g) / (std_g + 1e-06)"
    assert part(made, "reward") == "r_i = exact_match_i"
    assert part(made, "KL") == "k_it = d_it^2 / 2"


def test_every_term_with_its_number() -> None:
    made = module(
        loss="gspo",
        aggregation="sequence_mean_token_mean",
        correction=create("correction", "truncated_importance", level="sequence"),
        kl=KLTerm(estimator=create("kl", "k2"), weight=0.02, target=3.0),
        entropy=EntropyBonus(weight=0.003),
        auxiliary=[
            AuxiliaryTerm(loss=Supervised(), weight=0.25, complement=True),
            AuxiliaryTerm(loss=Supervised(), weight=0.5, final_weight=0.1, decay_updates=9, name="late"),
        ],
    )
    explained = explain(made)
    inner = "c_i l_i + beta k_it - 0.003 H_it"
    before = "(1/N) sum_i (1/l_i) sum_t"
    wanted = f"L(theta) = (1 - 0.25) {before} [ {inner} ] + 0.25 L_supervised + mu_late L_late"
    assert explained.objective.text.replace("c_it", "c_i") == wanted
    assert explained.symbols["mu_late"] == "goes from 0.5 to 0.1 over 9 updates (cosine) and stays there"
    assert part(made, "KL coefficient").startswith("beta <- beta (1 + clip(KL / 3 - 1, -0.2, 0.2) rows / 10000)")


def test_rewards_gates_and_a_kl_in_the_reward() -> None:
    entries = [
        RewardEntry(reward=ExactMatch(), weight=0.5, name="a"),
        RewardEntry(reward=ExactMatch(), weight=-2.0, name="b"),
        RewardEntry(reward=ExactMatch(), gate=True, name="g"),
        RewardEntry(reward=ExactMatch(), log_only=True, name="seen"),
    ]
    made = module(rewards=entries, kl=KLTerm(estimator=create("kl", "k1"), weight=0.1, where="reward"))
    assert part(made, "reward") == "r_i = (0.5 a_i + -2 b_i) g_i - 0.1 sum_t k_it"
    assert "k_it" not in explain(made).objective.text


class Foreign(PolicyLoss):
    """Something of a plugin's own."""

    name = "test_foreign"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(-inputs.advantages_S * inputs.log_probs_S)


def test_a_component_without_an_equation_is_named() -> None:
    made = module(loss=Foreign())
    assert part(made, "policy term") == "l_it = test_foreign"
    assert explain(made).symbols["test_foreign"] == "Something of a plugin's own."


def test_auxiliary_losses_go_by_their_own_names_and_counts() -> None:
    terms = [AuxiliaryTerm(loss=Supervised(), name=name) for name in ("a", "b")]
    explained = explain(module(auxiliary=terms))
    found = [part.formula.text for part in explained.parts if part.role == "auxiliary"]
    assert found == [f"L_{name} = -(1/M) sum_t log pi_theta(y_t)" for name in ("a", "b")]
    assert explained.symbols["T"] == "trainable steps of all rows of the update, on all ranks"
    assert "answers" in explained.symbols["M"]
    assert "mu" not in explained.symbols


@pytest.mark.parametrize("loss", sorted(Registry(Plugins([])).entries["loss"]))
def test_no_symbol_has_two_meanings(loss: str) -> None:
    made = create("loss", loss)
    aggregation = sorted(made.aggregations or {"token_mean"})[0]
    kl = KLTerm(estimator=create("kl", "k3_unbiased"), weight=0.1)
    explained = explain(module(loss=made, aggregation=aggregation, kl=kl))
    assert explained.symbols["rho_it"] == "pi_theta(y_it) / pi_old(y_it)"
    assert not any(symbol.endswith((f" ({loss})", " (k3_unbiased)")) for symbol in explained.symbols)
    (term,) = [each.formula.text for each in explained.parts if each.role == "policy term"]
    assert ("rho_mu_it" in explained.symbols) == ("rho_mu_it" in term)


def test_a_transform_and_a_kl_in_the_reward() -> None:
    made = module(
        advantage="leave_one_out",
        transforms=[create("transform", "clip", limit=10.0)],
        kl=KLTerm(estimator=create("kl", "k1"), weight=0.1, where="reward"),
    )
    assert part(made, "then") == "A <- clip(A, -10, 10)"
    assert r"A &\leftarrow \operatorname{clip}(A, -10, 10)" in latex(explain(made))
    assert "no gradient" in explain(made).symbols["k_it in the reward"]
    assert "r_is" in explain(module(advantage="reinforce_plus_plus")).symbols


def test_notes_say_what_is_counted_and_run() -> None:
    assert any("counted and not run" in note for note in explain(module()).notes)
    assert any("neither clips nor masks" in note for note in explain(module()).notes)
    several = explain(module(updates_per_rollout=2, loss="kl_cov"))
    assert not any("neither clips" in note or "not run" in note for note in several.notes)
    assert any("begins with a pass" in note for note in several.notes)


def test_the_page_holds_all_of_it() -> None:
    explained = explain(module(kl=KLTerm(estimator=create("kl", "k3"), weight=0.1)))
    text = page(explained, "What x optimises")
    assert text.startswith("What x optimises\n")
    for each in [explained.objective.text, *(one.formula.text for one in explained.parts)]:
        assert each in text
    flat = " ".join(text.split())
    for each in [*explained.sources, *explained.warnings, *explained.notes]:
        assert each in flat
    assert latex(explained) in text


@pytest.mark.parametrize("loss", ["clipped", "gspo", "kl_cov"])
def test_latex_is_balanced_and_aligned(loss: str) -> None:
    made = module(loss=loss, kl=KLTerm(estimator=create("kl", "k1"), weight=1e-4), entropy=EntropyBonus(weight=0.01))
    lines = latex(explain(made)).splitlines()
    assert (lines[0], lines[-1]) == (r"\begin{aligned}", r"\end{aligned}")
    for line in lines[1:-1]:
        assert line.count(" &= ") == 1
        assert line.count("{") == line.count("}")
        assert line.count(r"\left") == line.count(r"\right")
    assert r"10^{-4}\, k_{i,t}" in lines[1].replace(r"0.0001", "10^{-4}")
