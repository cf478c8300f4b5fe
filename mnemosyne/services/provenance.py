"""Places in the log: the turn that a caller names, the words of its reply, and the bytes of an entry's words."""

import json
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.state import Entry
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import BadOption, ContentForgotten, ContentMissing, NotFound
from mnemosyne.services import contexts, sessions
from mnemosyne.services.sessions import Archive


@attrs.frozen
class WordsPlace:
    """The place of an entry's words: these bytes in the request of the turn that it came from."""

    start: int
    end: int


async def find_provenance(
    archive: Archive, session: str | None, turn: int | None = None, branch: str | None = None
) -> Provenance | None:
    """The named turn of a session's branch, by default the last one of the conversation; None if no session is named.
    Raises NotFound, and BadOption for a turn without a session.
    """
    if session is None:
        if turn is not None:
            raise BadOption(f"turn {turn} needs its `session`.")
        return None
    stream, history = await sessions.read_history(archive, session)
    if not history.attempts:
        raise NotFound(f"Session {stream} has no turns.")
    newest = [each.began for each in reversed(history.attempts)]
    last = next((each for each in newest if history.line(each.branch).opened.is_interactive), newest[0])
    if branch is None and turn is None:
        return Provenance(session=stream, branch=last.branch, turn=last.turn)
    began = history.turn(branch or last.branch, turn)[-1].began
    return Provenance(session=stream, branch=began.branch, turn=began.turn)


async def read_reply_words(archive: Archive, source: Provenance) -> str:
    """The words of the reply to a turn, without thinking and calls. Raises NotFound if it has none, LogFailed, and
    ContentForgotten.
    """
    history = await sessions.read_stream(archive, source.session)
    return await words_of(archive, source.session, history, history.turn(source.branch, source.turn)[-1])


async def words_of(archive: Archive, stream: UUID, history: History, attempt: Attempt) -> str:
    """The words of the reply to an attempt. Raises as ``read_reply_words``."""
    reply = await contexts.read_reply(archive, stream, attempt)
    blocks = history.dialect_of(attempt.began.branch).reply_content(json_object(reply or b""))
    words = "\n\n".join(str(block["text"]) for block in blocks if block.get("type") == "text").strip()
    if not words:
        raise NotFound(f"The reply of turn {attempt.began.turn} contains no text.")
    return words


async def find_words(archive: Archive, entry: Entry) -> WordsPlace | None:
    """The place of an entry's words, verbatim except for an initial capital. None if its source's request does not
    contain them in one line, or the source is unknown or deleted. Raises LogFailed.
    """
    source = entry.provenance
    if source is None or not entry.content:
        return None
    try:
        stream, history = await sessions.read_history(archive, str(source.session))
        attempt = history.turn(source.branch, source.turn)[-1]
        body = (await contexts.rebuild(archive, stream, history, attempt)).body
    except (NotFound, ContentForgotten, ContentMissing):
        return None
    for words in (entry.content, entry.content[0].lower() + entry.content[1:]):
        for as_ascii in (False, True):
            encoded = json.dumps(words, ensure_ascii=as_ascii)[1:-1].encode("utf-8", "surrogatepass")
            if (start := body.rfind(encoded)) >= 0:
                return WordsPlace(start, start + len(encoded))
    return None
