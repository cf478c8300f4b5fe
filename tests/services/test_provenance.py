"""An entry's words are located in the bytes of the request that they came from."""

from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntrySource, Scope
from mnemosyne.domain.knowledge.state import Entry
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.services import contexts
from mnemosyne.services.memory_operations import BY_NAME, LONGEST_NOTE, ApiCall
from mnemosyne.services.provenance import find_provenance, find_words
from tests.domain.knowledge.support import FIRST, draft
from tests.not_none import not_none
from tests.services.talking import Plain, assistant, body, talking, user
from tests.services.test_knowledge import knowledge, stamp

SAID = 'Keep it short. Never log the "raw" header, not even in prod.'
RULE = 'Never log the "raw" header, not even in prod.'
FACT = "the staging database is read-only"
REMEMBERED = f"please remember that {FACT}"


async def learned(archive: Plain, *said: str) -> list[Entry]:
    """Two entries with their source turns, of a conversation with these prompts."""
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


async def test_the_words_of_an_entry_are_found_in_its_turn_s_request(archive: Plain) -> None:
    rule, fact = await learned(archive, SAID, REMEMBERED)
    for entry, words in ((rule, 'Never log the \\"raw\\" header, not even in prod.'), (fact, "the staging database")):
        source = not_none(entry.provenance)
        sent = (await contexts.rebuild_turn(archive, str(source.session), source.branch, str(source.turn))).body
        place = not_none(await find_words(archive, entry))
        found = sent[place.start : place.end]
        assert words.encode() in found.replace(b"\\u00fc", "ü".encode()), entry.content


async def test_words_that_are_not_in_the_source_have_no_place(archive: Plain) -> None:
    (entry, _) = await learned(archive, SAID, REMEMBERED)
    source = not_none(entry.provenance)
    gone = Provenance(session=UUID(int=99), branch="main", turn=1)
    for changed in (
        attrs.evolve(entry, content="Never said so."),
        attrs.evolve(entry, content=""),
        attrs.evolve(entry, provenance=None),
        attrs.evolve(entry, provenance=gone),
        attrs.evolve(entry, provenance=attrs.evolve(source, turn=77)),
    ):
        assert await find_words(archive, changed) is None


async def test_a_caller_s_turn_is_the_last_one_unless_it_is_named(archive: Plain) -> None:
    (entry, _) = await learned(archive, SAID, REMEMBERED)
    assert entry.provenance is not None
    session = str(entry.provenance.session)
    found = [await find_provenance(archive, session, turn) for turn in (None, 1)]
    assert [each and each.turn for each in found] == [3, 1]
    assert await find_provenance(archive, None) is None
    with pytest.raises(NotFound):
        await find_provenance(archive, "nobody")


async def test_a_reply_is_kept_as_a_note_with_all_its_words_and_its_turn(archive: Plain) -> None:
    async with talking(archive) as talk:
        long = "The parser reads twice. " * 40
        await talk.ask(body([user("Why?")]), reply="It reads\n twice.")
        await talk.ask(body([user("Why?"), assistant("It reads\n twice."), user("More.")]), reply=long)
        await talk.ask(body([user("Write a title.")], tools=[]), reply="Parser")
        here = knowledge(archive.log)
        for given in ({"turn": 1}, {}):
            call = ApiCall(here, archive, {"session": str(talk.stream), **given}, stamp(len(given)))
            await BY_NAME["addMemory"].answer(call)
        short, cut = [each.entry for each in await here.list_entries(FIRST * 2)]
        assert (short.content, short.detail) == ("It reads twice.", "")
        assert (cut.content, cut.detail) == (long[:LONGEST_NOTE].rstrip() + "…", long.strip())
        assert [each.provenance and each.provenance.turn for each in (short, cut)] == [1, 2]
        assert short.source is cut.source is EntrySource.AGENT, "these are the model's words"
        with pytest.raises(BadOption, match="Give the content, or the session of the reply"):
            await BY_NAME["addMemory"].answer(ApiCall(here, archive, {"kind": "fact"}, stamp(3)))
