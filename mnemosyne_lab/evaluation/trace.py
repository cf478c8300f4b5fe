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
    """One call of an object with its results, or something that was said. Whoever reads one of its ``names`` (the last
    part of a path, the beginning of a command or of what was searched for) knows where its ``text`` came from.
    """

    names: tuple[str, ...]
    text: str = attrs.field(repr=False)


@attrs.frozen
class Use:
    """Something in the request of a ``turn`` referred to an object, as is ``known`` once that of another is read."""

    known: int
    turn: int


@attrs.frozen(kw_only=True)
class Item:
    """An object of the trace; ``id`` is unique in it.

    ``born`` is the turn with which it was made, ``last_turn`` the one whose request was the first to hold all of it:
    some are made only once it is clear what belongs to them. ``texts`` are what it shows at L1 to L4 (for L4
    the line of the index), without the frame; a fidelity without a rendition is missing. ``lost`` says in few words
    what the rendition lacks, ``asks`` what it is not enough for. ``superseded`` is the turn with
    which it was known that it no longer says how things are.
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
    """Where the client dropped its history: from ``turn`` on, a request begins with ``summary`` instead of the messages
    before number ``kept_from``. ``by_user`` says that its user ordered it. The summary was asked for at ``at`` (µs;
    None: right before the request). Where its text is not known, ``tokens`` is the size of what the client goes on
    with.
    """

    turn: int
    kept_from: int
    summary: str
    by_user: bool
    at: int | None = None
    tokens: int | None = None


@attrs.frozen(kw_only=True)
class Trace:
    """One session. ``messages`` is the whole history, as if the client had never shortened it, parsed. Its first
    request read ``found_cached`` tokens from the provider's cache, where another session had left them. Where there is
    a ``head``, the counted prompts are those of just this, and sizes are estimated at their scale.
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
"""Called behind each request that was gone through, for whoever shows how far that is."""


def pass_on() -> None:
    """The step of whom nobody watches."""
