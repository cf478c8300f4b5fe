"""A person's question is answered as the model's is: by the object that says it, in its own words."""

import pytest

from mnemosyne.domain.recall.object_search import Filter, text_in_index
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services import memories
from mnemosyne.services.asking import MemoryAnswer, ask
from mnemosyne.services.forgetting import forget
from tests.services.talking import Talk
from tests.services.test_search import Everything, twice_read


async def asked(talk: Talk, question: str, **chosen: str) -> MemoryAnswer:
    return await ask(talk.archive, Everything(talk), talk.stream, question, Filter(**chosen), 400)  # type: ignore[arg-type]  # branches alone


async def test_the_newest_version_answers_in_its_own_words() -> None:
    talk = await twice_read()
    found = await asked(talk, "how many max_connections has src/pool.py?")
    first = found.cited[0]
    assert set(first.quote.text.splitlines()) == {"max_connections = 25"}
    text = text_in_index(first.object, await memories.content_of(talk.archive, talk.stream, first.object)).encode()
    assert text[first.quote.start : first.quote.end].decode() == first.quote.text
    assert (found.embedder, found.missing, found.skipped) == ("e", 1, 0)


async def test_what_nobody_said_has_no_answer() -> None:
    talk = await twice_read()
    assert (await asked(talk, "who won the regatta in Kiel?")).cited == []


async def test_a_branch_that_is_not_there_and_a_forgotten_session_are_refused() -> None:
    talk = await twice_read()
    with pytest.raises(NotFound, match="has no branch 'nowhere'"):
        await asked(talk, "how many?", branch="nowhere")
    await forget(talk.archive, talk.stream, lambda: 1, "c")
    with pytest.raises(ContentForgotten):
        await asked(talk, "how many?")
