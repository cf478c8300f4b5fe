"""The reasons of faults have shares; a suspicious share of enough faults is marked."""

from mnemosyne.services.fault_reasons import FEWEST, list_shares


def test_shares_of_all_reasons_are_listed_and_suspicious_ones_are_marked() -> None:
    rows = [{"why": "tool_prerequisite", "faults": 9}, {"why": "user_recall", "faults": 1}]
    assert [each.text for each in list_shares(rows)] == [
        "user recall 1 (10 %, below 20 %)",
        "reference resolved 0 (0 %)",
        "tool prerequisite 9 (90 %, above 40 %)",
        "exact text 0 (0 %)",
        "speculative 0 (0 %)",
    ]


def test_nothing_is_suspicious_among_few_faults_and_nothing_is_listed_without_any() -> None:
    rows = [{"why": "speculative", "faults": FEWEST - 1}]
    assert {each.flag for each in list_shares(rows)} == {None}
    assert list_shares([]) == []
