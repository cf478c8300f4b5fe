"""The words of an entry that a session gave stand where it is said that they do, in the very bytes that were sent."""

from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.domain.knowledge.state import Entry
from mnemosyne.errors import NotFound
from mnemosyne.services import contexts
from mnemosyne.services.provenance import find_provenance, find_words
from tests.domain.knowledge.support import FIRST, draft
from tests.services.talking import Plain, assistant, body, plain, talking, user
from tests.services.test_knowledge import knowledge, stamp

SAID = 'Keep it short. Never log the "raw" header, not even in prod.'
RULE = 'Never log the "raw" header, not even in prod.'
FACT = "the staging database is read-only"
REMEMBERED = f"please remember that {FACT}"


async def learned(archive: Plain, *said: str) -> list[Entry]:
    """The entries of a conversation, each saved with the turn that it is from."""
    async with talking(archive) as talk:
        messages = []
        for each in (*said, "Go on."):
            messages += [user(each)]
            await talk.ask(body(messages))
            messages += [assistant("Noted.")]
        here = knowledge(archive.log)
        for turn, content in ((1, RULE), (2, FACT)):
            source = Provenance(session=talk.stream, branch="main", turn=turn)
            await here.remember(Scope.PROJECT, draft(content, provenance=source), stamp(turn))
        return [each.entry for each in await here.list_entries(FIRST * 2)]


async def test_the_words_of_an_entry_are_found_in_the_request_of_its_turn() -> None:
    archive = plain()
    rule, fact = await learned(archive, SAID, REMEMBERED)
    for entry, words in ((rule, 'Never log the \\"raw\\" header, not even in prod.'), (fact, "the staging database")):
        source = entry.provenance
        assert source is not None
        sent = (await contexts.rebuild_turn(archive, str(source.session), source.branch, str(source.turn))).body
        place = await find_words(archive, entry)
        assert place is not None
        found = sent[place.start : place.end]
        assert words.encode() in found.replace(b"\\u00fc", "ü".encode()), entry.content


async def test_where_the_words_are_elsewhere_or_nowhere_no_place_is_named() -> None:
    archive = plain()
    (entry, _) = await learned(archive, SAID, REMEMBERED)
    source = entry.provenance
    assert source is not None
    gone = Provenance(session=UUID(int=99), branch="main", turn=1)
    for changed in (
        attrs.evolve(entry, content="Never said so."),
        attrs.evolve(entry, content=""),
        attrs.evolve(entry, provenance=None),
        attrs.evolve(entry, provenance=gone),
        attrs.evolve(entry, provenance=attrs.evolve(source, turn=77)),
    ):
        assert await find_words(archive, changed) is None


async def test_an_outsider_s_turn_is_the_last_one_unless_it_is_named() -> None:
    archive = plain()
    (entry, _) = await learned(archive, SAID, REMEMBERED)
    assert entry.provenance is not None
    session = str(entry.provenance.session)
    last, first = await find_provenance(archive, session), await find_provenance(archive, session, 1)
    assert last is not None
    assert first is not None
    assert (first.turn, last.turn) == (1, 3)
    assert await find_provenance(archive, None) is None
    try:
        await find_provenance(archive, "nobody")
    except NotFound:
        return
    raise AssertionError("a session that is not there has no turns")
