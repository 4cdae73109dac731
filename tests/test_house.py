"""The rules of the house hold in this repository."""

import pytest

from extensions.core.topics import ROOT
from extensions.lint import RULES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_nothing_breaks_the_rule(rule):
    if problems := [str(problem) for problem in rule(ROOT)]:
        pytest.fail("\n".join(problems), pytrace=False)
