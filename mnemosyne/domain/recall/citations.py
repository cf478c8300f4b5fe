"""The citations of a reply, checked against what its context held."""

import re
from collections.abc import Collection

import attrs

from mnemosyne.domain.objects.ids import ID_LENGTH, ID_LETTERS, MARK

_CITED = re.compile(rf"{MARK}([{ID_LETTERS}]{{{ID_LENGTH}}})(?![0-9A-Za-z])")


@attrs.frozen
class Citations:
    """How a reply cites records: ``cited`` are ids of records that its context held, ``uncited`` those of records that
    memory returned in this turn and the reply does not name, and ``absent`` those that it names and its context did not
    hold.
    """

    cited: tuple[str, ...] = ()
    uncited: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def check(words: str, recalled: Collection[str], shown: Collection[str]) -> Citations:
    """Check the ``words`` of a reply. ``recalled`` are the objects that memory returned in its turn, ``shown`` those
    that the context held otherwise, in full or in part.
    """
    named = tuple(dict.fromkeys(_CITED.findall(words)))
    held = {*recalled, *shown}
    return Citations(
        cited=tuple(each for each in named if each in held),
        uncited=tuple(each for each in recalled if each not in named),
        absent=tuple(each for each in named if each not in held),
    )
