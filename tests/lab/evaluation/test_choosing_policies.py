"""A user's own policy is found by its path; each problem with it is one sentence."""

from pathlib import Path

import pytest

from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.policies import POLICIES, choose_policies, import_policy

OWN = '''
from mnemosyne_lab.evaluation.policy import Policy

def never(situation, candidates):
    """Plans nothing. Ever."""
    return None

NEVER = Policy(name="never", about="Nothing.", planner=never)
SAME = Policy(name="simple", about="Nothing.", planner=never)
NUMBER = 7
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # and all modules imported by it are removed again
    Path("own_policies.py").write_text(OWN)
    Path("broken_policies.py").write_text("x = 1\ny = x / 0\n")


def test_each_built_in_policy_is_chosen_once_by_default() -> None:
    assert choose_policies([]) == list(POLICIES)
    assert [each.name for each in choose_policies(["simple", "unmanaged", "simple"])] == ["unmanaged", "simple"]


def test_own_policy_and_planner_are_found_in_the_current_folder() -> None:
    policy, planner = choose_policies(["own_policies:NEVER", "own_policies:never"])
    assert (policy.name, planner.name, planner.about) == ("never", "own_policies:never", "Plans nothing.")
    assert planner.has_memory  # as a server runs it


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no_such_module:X", "'no_such_module' cannot be imported: No module named 'no_such_module'."),
        ("broken_policies:X", "fails when it is imported: ZeroDivisionError: division by zero"),
        ("own_policies:LATER", "there is no 'LATER' in 'own_policies'."),
        ("own_policies:NUMBER", "it is neither a Policy nor a planner"),
        ("own_policies:Policy", "it is neither a Policy nor a planner"),
        (":X", "':X' is not the place of a policy: that is MODULE:NAME."),
    ],
)
def test_problem_with_a_path_is_reported(place: str, said: str) -> None:
    with pytest.raises(BadOption) as raised:
        import_policy(place)
    assert said in str(raised.value)


def test_line_that_failed_is_named() -> None:
    with pytest.raises(BadOption, match=r"broken_policies\.py, line 2\)"):
        import_policy("broken_policies:X")


def test_two_policies_of_one_name_are_refused() -> None:
    with pytest.raises(BadOption, match="there is a policy 'simple' already"):
        choose_policies(["own_policies:SAME"])
