"""Candidate objects for a question, and the texts that are compared with it."""

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.kinds import keeps_prompt
from mnemosyne.domain.recall import sources
from mnemosyne.domain.recall.choosing import SearchedText
from mnemosyne.domain.recall.quoting import Where
from mnemosyne.domain.text.parts import PartRole, TextPart

MOST_ANSWERING = 40
"""Maximum number of objects whose lines are compared for one answer."""

MOST_CALLED = 2_000
"""Maximum number of objects, newest first, whose names are compared with a question: this takes some 30 ms."""


def may_answer(question: str, found: Sequence[Where], among: Mapping[str, MemoryObject]) -> list[str]:
    """The ids of objects that may answer: first those that the question names by source, then those whose names match
    it, then search results. ``among`` holds the objects in scope, in order of creation.
    """
    named = sources.find_named(question, among.values())
    newest = nlargest(MOST_CALLED, among.values(), key=lambda obj: obj.last_turn)
    other = [*sources.find_called(question, newest), *(where.object_id for where in found)]
    return sources.add_named(named, other, among)[:MOST_ANSWERING]


def parts_of_text(obj: MemoryObject, content: bytes) -> tuple[TextPart, ...]:
    """The text of an object, in parts; for an episode, or a claim of an older log, its stub. Raises ValueError."""
    if obj.places:
        return full_parts(content, obj.by_user)
    role = PartRole.USER if keeps_prompt(obj.tags) else PartRole.ASSISTANT
    return (TextPart(role, obj.stub.encode("utf-8", "replace").decode()),)


def list_texts(
    said: Mapping[str, tuple[TextPart, ...]],
    found: Sequence[Where],
    among: Mapping[str, MemoryObject],
    seen: Callable[[str], bool] = lambda _: False,
) -> list[SearchedText]:
    """The texts to compare with a question, likeliest first, from the parts in ``said`` by object id. ``seen`` returns
    whether the model already sees an object.
    """
    return [
        SearchedText(
            id=key,
            parts=parts,
            name=sources.name_of(among[key]),
            old=among[key].stale,
            seen=seen(key),
            found=[(where.start, where.end) for where in found if where.object_id == key],
        )
        for key, parts in said.items()
    ]
