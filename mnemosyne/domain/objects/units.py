"""Units: what is never cut, with what it is about."""

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.text.parts import TextPart

RUN = "run"
"""Tag of what was executed, so that running it again can show that it works now."""


@attrs.frozen(kw_only=True)
class Description:
    """What a call with its results, or a block of prose, is about.

    Units of the same ``group`` may become one object, unless one is ``alone``. ``key`` says where it came from: the
    path of a file, or the tool with what it was asked; the same key means the same source. ``parts`` are those of
    the ``text``.
    """

    kind: ObjectKind
    tool: str | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    group: str
    alone: bool = False
    stub: str
    text: str
    parts: tuple[TextPart, ...] = ()


@attrs.frozen
class Unit:
    """A description of blocks, where they are, and the turns in which they first came."""

    about: Description
    places: tuple[BlockPlace, ...]
    first_turn: int
    last_turn: int
