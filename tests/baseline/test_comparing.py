"""Every difference between two sets of hashes is named."""

from tests.baseline.comparing import compare

REFERENCE = {"session a": {"main 1.1/1": "aa", "main 2.1/1": "bb"}, "report a": {"ours": "cc"}}


def test_the_same_hashes_have_no_difference() -> None:
    assert list(compare(REFERENCE, REFERENCE)) == []


def test_the_first_turn_that_differs_is_named() -> None:
    found = REFERENCE | {"session a": {"main 1.1/1": "aa", "main 2.1/1": "xx"}}
    assert list(compare(REFERENCE, found)) == ["session a: 1 of 2 differ, first main 2.1/1"]


def test_a_turn_that_is_gone_or_new_differs() -> None:
    found = REFERENCE | {"session a": {"main 1.1/1": "aa", "main 3.1/1": "bb"}}
    assert list(compare(REFERENCE, found)) == ["session a: 2 of 3 differ, first main 3.1/1"]


def test_a_group_that_is_gone_or_new_differs() -> None:
    found = {"session a": REFERENCE["session a"], "report b": {}}
    assert list(compare(REFERENCE, found)) == ["report a: missing", "report b: new"]
