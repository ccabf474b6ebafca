"""What a configuration optimises, as one equation with its parts, its normalisers, its papers and its contradictions.

``equation.py`` assembles the equation, ``warnings.py`` holds one function for each contradiction that is told,
``signal.py`` the share of groups without signal, ``page.py`` the text. To add a warning: one more function in ``CHECKS``.
"""

from grpo_lightning.explanation.equation import Explanation, explain

__all__ = ["Explanation", "explain"]
