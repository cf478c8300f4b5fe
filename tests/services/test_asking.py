"""A person's question is answered like the model's, in quotes of the object that answers it."""

from collections.abc import Collection
from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.helper.answer import HelperQuestion, LookAgain
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.recall.object_search import Filter, SearchResult, find_passages, text_in_index
from mnemosyne.domain.session.decision_inputs import NOTHING_FOUND
from mnemosyne.domain.session.input_events import GroundedSentence, HelperAnswer
from mnemosyne.domain.wire.rereads import WORDINGS, RefersTo
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services import memories
from mnemosyne.services.asking import MemoryAnswer, ask
from mnemosyne.services.forgetting import forget
from mnemosyne.services.search import search
from tests.services.talking import Talk, assistant, body, talking, user
from tests.services.test_search import Everything, read, twice_read

STUB = next(each.text for each in WORDINGS if each.refers_to is RefersTo.EARLIER_RESULT)


async def asked(talk: Talk, question: str, **chosen: str) -> MemoryAnswer:
    return await ask(talk.archive, Everything(talk), talk.stream, question, Filter(**chosen), 400)  # type: ignore[arg-type]  # branches alone


async def test_an_answer_quotes_the_newest_version_and_there_may_be_none() -> None:
    talk = await twice_read()
    found = await asked(talk, "how many max_connections has src/pool.py?")
    first = next(each for each in found.cited if each.object.source_key == "src/pool.py")
    assert "max_connections = 25" in first.quote.text.splitlines()
    text = text_in_index(first.object, await memories.content_of(talk.archive, talk.stream, first.object)).encode()
    assert text[first.quote.start : first.quote.end].decode() == first.quote.text
    assert (found.embedder, found.missing, found.skipped) == ("e", 1, 0)
    assert (await asked(talk, "what calls parse_header?")).cited == []


@attrs.define
class ByWords(Everything):
    async def search(
        self, stream: UUID, question: str, among: Collection[str], limit: int, least: float = 0.2
    ) -> SearchResult:
        objects = memories.fold(await self.talk.archive.log.read(stream)).memory.objects
        contents = {name: await memories.content_of(self.talk.archive, stream, objects[name]) for name in among}
        texts = {name: text_in_index(objects[name], content) for name, content in contents.items()}
        return SearchResult(passages=find_passages(question, texts, least))


async def test_helper_that_finds_nothing_gets_passages_of_another_object_for_its_words_once() -> None:
    async with talking() as talk:
        files = [*read(1, "src/pool.txt", "the pool is small"), *read(2, "src/server.txt", "port: 8443")]
        await talk.ask(body([user("Look."), *files, assistant("Seen."), user("Go on.")]))
    sent: list[HelperQuestion] = []

    async def compose(asked: HelperQuestion) -> HelperAnswer:
        sent.append(asked)
        cost = HelperAnswer(helper="h", why=NOTHING_FOUND, version=4, nanodollars=3)
        holds = next((each for each in asked.passages if "8443" in each.text), None)
        if holds is None:
            return LookAgain(**attrs.asdict(cost), look_for="port")
        start = holds.start + holds.text.encode().index(b"port: 8443")
        sentence = GroundedSentence(text="It is 8443.", object=holds.object, start=start, end=start + 10)
        return attrs.evolve(cost, sentences=(sentence,), why=None)

    found = await ask(talk.archive, ByWords(talk), talk.stream, "which pool?", Filter(), 400, compose)
    assert [each.look_for for each in sent] == ["", "port"]
    ((quote, sentence),) = ((each.quote.text, each.sentence) for each in found.cited)
    assert (quote, sentence) == ("port: 8443", "It is 8443.")
    assert found.helped is not None
    assert (type(found.helped), found.helped.nanodollars) == (HelperAnswer, 6)


async def test_second_look_reads_objects_ranked_below_those_of_the_first() -> None:
    async with talking() as talk:
        files = [each for n in range(40) for each in read(n, f"src/{n}.txt", f"the pool {n} is small")]
        await talk.ask(body([user("Look."), *files, assistant("Seen."), user("Go on.")]))
    sent: list[set[str]] = []

    async def compose(asked: HelperQuestion) -> HelperAnswer:
        sent.append({each.object for each in asked.passages})
        return LookAgain(helper="h", look_for="zebra")

    await ask(talk.archive, ByWords(talk), talk.stream, "which pool?", Filter(), 400, compose)
    first, second = sent
    assert len(first) == 30
    assert len(second - first) >= 10


async def test_a_missing_branch_and_a_deleted_session_are_refused() -> None:
    talk = await twice_read()
    with pytest.raises(NotFound, match="has no branch 'nowhere'"):
        await asked(talk, "how many?", branch="nowhere")
    await forget(talk.archive, talk.stream, lambda: 1, "c")
    with pytest.raises(ContentForgotten):
        await asked(talk, "how many?")


@pytest.mark.parametrize(
    "question", ["src/pool.py", "what does pool.py hold?", STUB, "Read src/pool.py again: unchanged"]
)
@pytest.mark.parametrize("held", [False, True])
async def test_a_client_s_reference_to_a_file_is_no_answer(question: str, held: bool) -> None:
    file = read(1, "src/pool.py", "max_connections = 20\n" * 100) if held else []
    async with talking() as talk:
        messages = [user("Look."), *file, *read(2, "src/pool.py", STUB), assistant("Seen."), user("Go on.")]
        await talk.ask(body(messages))
        again = [*messages, assistant("Yes."), *read(3, "src/pool.py", STUB), assistant("Seen."), user("Go on.")]
        await talk.ask(body(again))
    answer = await asked(talk, question)
    found = await search(talk.archive, Everything(talk), talk.stream, question, Filter(), 9)
    assert not any(STUB in each.quote.text for each in answer.cited)
    assert not any(UNCHANGED in each.object.tags for each in found.found)
    assert bool(answer.cited) == held or question not in ("src/pool.py", "what does pool.py hold?")
