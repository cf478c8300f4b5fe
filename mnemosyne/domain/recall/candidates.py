"""Which objects may answer a question, and what of them is compared with it."""

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.kinds import keeps_prompt
from mnemosyne.domain.recall import sources
from mnemosyne.domain.recall.choosing import SearchedText
from mnemosyne.domain.recall.quoting import Where
from mnemosyne.domain.text.parts import TextPart, Voice

MOST_ANSWERING = 40
"""Objects whose lines are compared for one answer."""

MOST_CALLED = 2_000
"""Objects, the newest, that a question may call by their names: comparing these takes some 30 ms."""


def may_answer(question: str, found: Sequence[Where], among: Mapping[str, MemoryObject]) -> list[str]:
    """The ids of the objects that may answer: what the question names, then what it calls, then what a search found.

    ``among`` holds the objects that may be told of, in the order in which they were made.
    """
    named = sources.find_named(question, among.values())
    newest = nlargest(MOST_CALLED, among.values(), key=lambda each: each.last_turn)
    other = [*sources.find_called(question, newest), *(where.object_id for where in found)]
    return sources.add_named(named, other, among)[:MOST_ANSWERING]


def parts_of_text(each: MemoryObject, content: bytes) -> tuple[TextPart, ...]:
    """What an object says, in its parts; an episode, and a claim of an older log, is its stub. Raises ValueError."""
    if each.places:
        return full_parts(content, each.by_user)
    voice = Voice.USER if keeps_prompt(each.tags) else Voice.ASSISTANT
    return (TextPart(voice, each.stub.encode("utf-8", "replace").decode()),)


def list_texts(
    said: Mapping[str, tuple[TextPart, ...]],
    found: Sequence[Where],
    among: Mapping[str, MemoryObject],
    seen: Callable[[str], bool] = lambda _: False,
) -> list[SearchedText]:
    """What is compared with a question, of objects of which all is known that they ``said``, by their ids, the
    likelier first. ``seen`` tells which of them stand before the model.
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
