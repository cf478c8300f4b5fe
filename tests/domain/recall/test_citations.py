"""Only an id that the context held is a citation."""

from mnemosyne.domain.recall.citations import Citations, check
from mnemosyne.domain.window.assembly import CITE


def test_a_named_record_is_cited_if_the_context_held_it_and_a_returned_one_without_a_name_is_uncited() -> None:
    words = "The pool holds 20 [#aaabbb2], as #ccc3333, #ccc3333 and [#zzz9999] say."
    found = check(words, recalled=("aaabbb2", "ddd4444"), shown=("ccc3333", "eee5555"))
    assert found == Citations(cited=("aaabbb2", "ccc3333"), uncited=("ddd4444",), absent=("zzz9999",))


def test_nothing_but_an_id_of_an_object_is_a_citation() -> None:
    assert check(f"{CITE} #42 #aaabbb2c #AAABBB2 aaabbb2", (), ("aaabbb2",)) == Citations()
