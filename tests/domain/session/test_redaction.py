"""Redacted events contain no text of the session, and still fold."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import reduce
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.ports import UnreadableEvent
from mnemosyne.domain.session.events import EVENT_NAMES, Event, EventLost, SessionForgotten, SessionStarted
from mnemosyne.domain.session.redaction import is_whole, lose, redact
from mnemosyne.domain.session.state import Session, evolve
from tests.domain.remembered import histories, made
from tests.domain.stories import Story
from tests.services.talking import rich_session, talking

WORDS = {
    "object.created.v2": {"source_tool", "source_key", "tags", "stub", "line", "key_entities"},
    "object.summarized.v2": {
        "losses.dropped",
        "losses.can_answer",
        "losses.fault_when",
        "losses.failed",
        "losses.key_entities",
        "losses.sample",
    },
    "session.memory_brought.v1": {"objects.words"},
    "session.grounds_noted.v3": {"policy"},
    "session.helper_asked.v2": {"question", "sentences.text"},
    "session.helper_worked.v1": {"subject", "record"},
    "session.knowledge_told.v1": {"text"},
    "session.checkpoint_named.v1": {"name"},
    "session.edited.v2": {"title"},
    "object.faulted.v2": {"reason"},
    "object.pinned.v2": {"reason"},
    "object.unpinned.v2": {"reason"},
    "object.released.v2": {"reason"},
    "object.requested.v1": {"reason"},
    "object.forgotten.v1": {"reason"},
    "session.tools_declared.v1": {"uses.reads", "uses.writes"},
}
"""The texts that were said, or made from what was said."""

_OBJECT = "an id that we made: a hash under the session's key"
_BRANCH = "a name that we give: main, fork-1"
_MODEL = "the provider's name of a model"

NO_WORDS = {
    "object": _OBJECT,
    "by": _OBJECT,
    "links.target": _OBJECT,
    "link.target": _OBJECT,
    "uses.call": "an id that the provider made",
    "branch": _BRANCH,
    "parent": _BRANCH,
    "model": _MODEL,
    "helper": _MODEL + ", or extractive",
    "used": _OBJECT,
    "objects.object": _OBJECT,
    "entries": "ids that we made",
    "losses.lost": "kinds of specifics, which we name, and how many",
    "zone": "ours",
    "why": "our words on why a branch is managed or not, or why a helper's answer is not used",
    "lane": "main, side, or an agent's id",
    "agent_id": "an id that the client made",
    "tenant": "the operator's",
    "external_id": "the client's id of its session: people name a forgotten session by it",
    "client": "the program's name",
    "client_version": "the program's version",
    "speaker.version": "the program's version",
    "speaker.external_id": "the client's id of its session",
    "speaker.parent_external_id": "the client's id of another session",
    "speaker.agent_id": "an id that the client made",
    "speaker.parent_agent_id": "an id that the client made",
    "speaker.betas": "names of the provider's features; credentials among them are hashed",
    "tariff": "a name in the table of tariffs",
    "limits": "numbers, times and words of the provider, at most 40 characters each",
    "opaque": "our words on why a body is not read",
    "message_id": "an id that the provider made",
    "answers.call": "an id that the provider made",
    "call": "an id that the provider made",
    "sentences.object": _OBJECT,
    "task": "our name of a task",
    "rejected": "our words on why a helper's answer is not used",
    "dropped": "our words on why a part of a helper's answer is not used",
    "late_calls": "ids that the provider made",
    "unread_calls": "ids that the provider made",
    "found.passages.object": _OBJECT,
    "stop_reason": "the provider's word for how a reply ended",
    "error_type": "the provider's word for an error, without its message",
    "usage": "what the provider counted",
    ("session.turn_interrupted.v3", "reason"): "our words on how the exchange broke off",
    ("session.settings_taken.v12", "policy"): "the operator's",
    "policy_version": "the operator's",
    "chosen": "names of settings",
    "restores": "model, proxy or both",
    "grounding": "free, cited or strict",
    "refused": "our words on why a header is refused",
    ("session.epoch_began.v1", "reason"): "our words on why the window was rewritten",
    ("session.window_filled.v1", "why"): "our words on why no more was taken out",
    ("session.gap_recorded.v1", "reason"): "our words on why a turn went unrecorded",
}
"""The other texts, and why they may stay."""

CANARY = "Mnemosyne"


def texts_of(hint: Any, path: str) -> Iterator[str]:
    """The paths of all texts in a value of a type. Bytes are hashes, and recipes, which name contents by hash; a
    literal is a word of ours.
    """
    if attrs.has(hint):
        for field in attrs.fields(attrs.resolve_types(hint)):
            yield from texts_of(field.type, f"{path}.{field.name}".lstrip("."))
    elif hint in (str, Any):
        yield path
    elif get_origin(hint) not in (None, Literal):
        yield from dict.fromkeys(text for each in get_args(hint) for text in texts_of(each, path))


def spoken(hint: Any) -> Any:
    """A value of a type with the canary in every text."""
    if attrs.has(hint):
        return hint(**{field.name: spoken(field.type) for field in attrs.fields(attrs.resolve_types(hint))})
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return spoken(parts[0])
    if origin is Literal:
        return parts[0]
    if origin is tuple:
        return (spoken(parts[0]),) if parts[1:] == (...,) else tuple(map(spoken, parts))
    if origin is not None:
        return {spoken(parts[0]): spoken(parts[1])}
    if issubclass(hint, Enum):
        return next(iter(hint))
    if hint is UUID:
        return UUID(int=0)
    return CANARY if hint in (str, Any) else hint()


def find_canaries(value: Any, path: str = "") -> Iterator[str]:
    """The paths at which a value contains the canary."""
    if isinstance(value, str):
        if CANARY in value:
            yield path
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from find_canaries(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from find_canaries(pair, path)
    elif isinstance(value, tuple):
        for each in value:
            yield from find_canaries(each, path)


def test_redaction_erases_every_text_field_that_is_not_listed_as_safe_and_is_idempotent() -> None:
    for name, kind in EVENT_NAMES.items():
        event, texts = spoken(kind), set(texts_of(kind, ""))
        once = redact(event)
        assert set(find_canaries(event)) == texts, name  # the canary is in every text
        assert set(find_canaries(once)) == texts - WORDS.get(name, set()), name
        unexplained = {text for text in texts if text not in NO_WORDS and (name, text) not in NO_WORDS}
        assert unexplained == WORDS.get(name, set()), name
        assert redact(once) == once


def test_every_text_field_listed_as_safe_exists_in_an_event() -> None:
    found = {text for name, cls in EVENT_NAMES.items() for text in texts_of(cls, "")}
    assert {text if isinstance(text, str) else text[1] for text in NO_WORDS} <= found


def folded(events: list[Event]) -> Session:
    return reduce(evolve, events, Session())


async def test_a_forgotten_session_folds_to_the_same_state_from_redacted_events() -> None:
    async with talking() as talk:
        await rich_session(talk)
    events: list[Event] = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    assert [*map(redact, events)] != events
    full = bare = Session()
    for number, event in enumerate(events, 1):
        full, bare = evolve(full, event), evolve(bare, redact(event))
        if number >= 3:
            assert evolve(full, SessionForgotten(at=7)) == evolve(bare, SessionForgotten(at=7))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), histories)
def test_a_forgotten_session_folds_to_the_same_state_after_any_object_events(
    history: list[str], happened: list[ObjectEvent]
) -> None:
    story = Story()
    story.begin(" ".join(history))
    events: list[Event] = [*story.events, made("a", 0), made("b", 2), *happened]
    forgotten = SessionForgotten(at=7)
    assert folded([*events, forgotten]) == folded([*map(redact, events), forgotten])


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_forgotten_damaged_session_starts_over(damaged: int) -> None:
    story = Story()
    story.begin("u1")
    events: list[Event | UnreadableEvent] = [*story.events]
    events[damaged] = UnreadableEvent("its row is not what was written")
    lost = [lose(event, 7) for event in events]
    assert [type(event) for event in lost] == [SessionStarted if damaged else EventLost, EventLost, EventLost]
    assert [lose(event, 8) for event in lost] == lost
    assert is_whole(lost)
    again = Story()
    again.events = [*lost, SessionForgotten(at=7)]
    again.state = reduce(evolve, again.events, Session())
    began = again.begin("u1 a1 u2")
    assert (began.turn, began.base, began.kept) == (1, 0, 0)
    assert sum(isinstance(event, SessionStarted) for event in again.events) == 1


def test_a_session_with_a_dangling_reference_is_not_whole() -> None:
    story = Story()
    story.begin("u1")
    assert is_whole(story.events)
    assert not is_whole([story.events[0], *story.events[2:]])
