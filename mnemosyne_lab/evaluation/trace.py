"""A recorded session as the evaluation drives it: its requests, its history in objects, and what its client did."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role


@attrs.frozen(kw_only=True)
class TraceRequest:
    """Request ``turn`` (from 1): at which µs it started, and how many messages of the whole history it holds.

    ``prompt`` is the size of its prompt as the provider counted it, None where that was not recorded. ``exchange`` is
    the turn in which the user last typed something. ``output`` are the tokens of the reply, None where not known.
    """

    turn: int
    at: int
    messages: int
    prompt: int | None
    exchange: int
    output: int | None = None


@attrs.frozen
class OwnHead:
    """What stands before the messages of each request, as the API has it; None where it is not on record and only the
    counted prompts tell its size.
    """

    system: Any = None
    tools: Any = None


@attrs.frozen
class TracePart:
    """A call of an object with its results, or a text. Any of its ``names`` (the last part of a path, the beginning of
    a command or search) identifies the source of its ``text``.
    """

    names: tuple[str, ...]
    text: str = attrs.field(repr=False)


@attrs.frozen
class Use:
    """A reference to an object in the request of a ``turn``, which is ``known`` once another object is read."""

    known: int
    turn: int


@attrs.frozen(kw_only=True)
class Item:
    """An object of the trace; ``id`` is unique in it.

    ``born`` is the turn in which it was made, ``last_turn`` the first one whose request held all of it: some objects
    are made only once it is clear what belongs to them. ``texts`` are its renderings at L1 to L4 (for L4 the line of
    the index), without the frame; a missing fidelity has no rendering. ``lost`` names the kinds of specifics that a
    rendering lacks, ``asks`` the purposes it is not enough for. ``superseded`` is the turn in which it became known to
    be out of date.
    """

    id: str
    kind: ObjectKind
    role: Role
    tags: tuple[str, ...]
    source_tool: str | None
    source_key: str | None
    places: tuple[BlockPlace, ...]
    born: int
    last_turn: int
    text: str = attrs.field(repr=False)
    texts: Mapping[Fidelity, str] = attrs.field(repr=False)
    lost: Mapping[Fidelity, str] = attrs.field(repr=False)
    asks: Mapping[Fidelity, str] = attrs.field(factory=dict, repr=False)
    parts: tuple[TracePart, ...]
    uses: tuple[Use, ...]
    superseded: int | None


@attrs.frozen(kw_only=True)
class Reset:
    """A client's compaction: from ``turn`` on, a request begins with ``summary`` instead of the messages before number
    ``kept_from``. ``by_user`` means that its user ordered it. The summary was requested ``at`` (µs; None: right before
    the request). If its text is unknown, ``tokens`` is the size of the summary with the files that the client reads
    again.
    """

    turn: int
    kept_from: int
    summary: str
    by_user: bool
    at: int | None = None
    tokens: int | None = None


@attrs.frozen(kw_only=True)
class Trace:
    """One session. ``messages`` is the whole history, parsed, as if the client had never shortened it. Its first
    request read ``found_cached`` tokens that another session had cached. With a ``head``, the counted prompts are those
    of exactly this content, and sizes are scaled to them.
    """

    name: str
    model: str | None
    messages: Sequence[Mapping[str, Any]] = attrs.field(repr=False)
    requests: Sequence[TraceRequest] = attrs.field(repr=False)
    items: Sequence[Item] = attrs.field(repr=False)
    resets: Sequence[Reset]
    found_cached: int = 0
    head: OwnHead | None = attrs.field(default=None, repr=False)


Step = Callable[[], None]
"""Called after each request, to show progress."""


def pass_on() -> None:
    """A step that shows no progress."""
