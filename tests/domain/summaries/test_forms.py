"""An extractive L1 is made of an object's stored content, smaller than it and recorded as what it is."""

import json
from functools import reduce
from hashlib import sha256

import pytest

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.decide import decide
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.summaries import extractive
from mnemosyne.domain.summaries.forms import RecordedForm, extract
from tests.actors.summaries import long_text
from tests.domain.objects.test_work import created
from tests.not_none import not_none

TEXT = long_text("alpha")


def remembered(text: str) -> Memory:
    return reduce(memory.evolve, [created("a", size=len(text))], Memory())


def made(text: str, content: bytes) -> RecordedForm | None:
    known = remembered(text)
    return extract(known.objects["a"], known, content, 7)


def stored(text: str) -> bytes:
    return json.dumps({"type": "text", "text": text}).encode()


def test_an_l1_has_at_most_a_third_of_the_text_and_names_its_own_bytes() -> None:
    form = not_none(made(TEXT, stored(TEXT)))
    command = form.command
    assert 0 < len(form.text) <= 0.3 * len(TEXT)
    assert (command.object, command.fidelity, command.helper, command.at) == (
        "a",
        Fidelity.DETAILED,
        extractive.NAME,
        7,
    )
    assert form.content == (sha256(form.text.encode()).digest(), form.text.encode())
    assert command.losses.lost


def test_the_same_content_makes_the_same_l1() -> None:
    assert made(TEXT, stored(TEXT)) == made(TEXT, stored(TEXT))


@pytest.mark.parametrize("content", [b"{", b"[1, 2", b"\xff\xfe"])
def test_content_that_is_no_json_makes_no_l1(content: bytes) -> None:
    assert made(TEXT, content) is None


def test_a_text_of_blanks_makes_no_l1() -> None:
    assert made(" \n" * 2_000, stored(" \n" * 2_000)) is None


def test_an_object_that_has_an_l1_gets_no_other() -> None:
    known = remembered(TEXT)
    form = not_none(extract(known.objects["a"], known, stored(TEXT), 7))
    known = reduce(memory.evolve, decide(form.command, known), known)
    assert extract(known.objects["a"], known, stored(TEXT), 8) is None
