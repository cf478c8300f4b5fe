"""A managed conversation from which a file was evicted, with an index of its objects."""

import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.recall.object_search import PassageHit, SearchResult, text_in_index
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.text.passages import Passage, passages
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from tests.actors.support import StoppableLog, assembled, events_of
from tests.http.managing import Client, Json, Stage, open_stage, text, think
from tests.http.test_epochs import SMALL, answer, read, violations

DECIDED = "The upload queue makes 7 retries, as its proxy gives up after eight: UPLOAD_RETRY_LIMIT in lib/queue.py."
RECALL = "What did we decide about the retries of the upload queue?"


def result(call: Json, holds: str, size: int = 300) -> Json:
    """A long file of irrelevant content except for one line."""
    lines = [f"{number:6}\tlike a line of a long and dull column, and of no use" for number in range(size)]
    lines[150] = f"   150\t{holds}"
    return {"type": "tool_result", "tool_use_id": call["id"], "content": "\n".join(lines)}


async def exchange(
    client: Client, stage: Stage, prompt: str, *replies: Sequence[Json], holds: str = "", size: int = 300
) -> Json:
    """Send the prompt and every result that the model asks for; return the replies, the final one last."""
    answer(stage, *replies)
    message = await client.turn(text(prompt))
    while message.get("stop_reason") == "tool_use":
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        message = await client.turn(*(result(call, holds, size) for call in calls))
    assert "error" not in message, message
    return message


async def read_and_evict(client: Client, stage: Stage, holds: str = DECIDED, size: int = 300) -> None:
    """Read a file with the content, then fill the window until a rewrite evicts it."""
    done = [think(), text("Done.")]
    await exchange(client, stage, "Read the notes.", [think(), read("/docs/notes.md")], done, holds=holds, size=size)
    await exchange(client, stage, "Read the large part.", [think(), read("/src/part.py")], done, size=900)
    assert await stage.events_of(EpochBegan)
    assert holds not in json.dumps(stage.upstream[-1]["messages"])


@attrs.frozen
class Index:
    """An index of the recorded objects by the words of their passages."""

    log: StoppableLog

    async def search(
        self, stream: UUID, question: str, among: Collection[str], limit: int, least: float = 0.2
    ) -> SearchResult:
        words: WordIndex[tuple[str, Passage]] = WordIndex()
        for event in await events_of(self.log, stream):
            if isinstance(event, ObjectCreated) and event.object in among:
                content = recipe.apply(Recipe(), recipe.decode(event.content))
                said = text_in_index(event, await assembled(self.log, content, stream))
                for passage in passages(said):
                    words.add((event.object, passage), said[passage.start : passage.end])
        hits = words.search(question, limit)
        best = {hit.key[0]: PassageHit(*hit.key, hit.score / hits[0].score) for hit in reversed(hits)}
        return SearchResult(passages=list(best.values()))


@asynccontextmanager
async def indexed_stage(**options: Any) -> AsyncIterator[Stage]:
    log = StoppableLog()
    async with open_stage(window=SMALL, log=log, index=Index(log), **options) as stage:
        yield stage
        assert violations(stage) == []
        await stage.rounds()
