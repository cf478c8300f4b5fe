"""A person's question is answered like the model's, in quotes of the object that answers it."""

import pytest

from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.recall.object_search import Filter, text_in_index
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
