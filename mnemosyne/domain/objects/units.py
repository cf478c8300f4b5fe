"""Units: the smallest pieces of a conversation, which are never split, with their descriptions."""

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.text.parts import TextPart

RUN = "run"
"""Tag of a command that was executed, so that a later run can show that it succeeds now."""


@attrs.frozen(kw_only=True)
class Description:
    """Description of a call with its results, or of a block of prose.

    Units of the same ``group`` may become one object, unless one is ``alone``. ``key`` is the source: a file's path, or
    the tool with its input; equal keys mean the same source. ``parts`` are the parts of ``text``.
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
    """A description of blocks, their places, and the turns in which they first appeared."""

    about: Description
    places: tuple[BlockPlace, ...]
    first_turn: int
    last_turn: int
