"""What a session's decisions stand on besides what happened in it: its server's settings, and what came in time.

Both are recorded with the decision, so that it can be taken again.
"""

from collections.abc import Collection
from hashlib import sha256

import attrs

from mnemosyne.domain.cost.tariffs import API
from mnemosyne.domain.session.input_events import (
    Awaited,
    GroundedSentence,
    GroundsNoted,
    HelperAsked,
    IndexFound,
    InputEvent,
    SettingsTaken,
)
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.upstreams import NamedUpstream, list_takers

QUESTION_BYTES = 8
"""How much is kept of the hash of a question: enough to tell those of one turn apart."""


@attrs.frozen(kw_only=True)
class ServerSettings:
    """The settings of a server that decide what goes upstream. The fields are those of SettingsTaken, but for the
    upstream's ``host`` and the ``others``, which get some of the requests instead. Where ``tariff`` is None it is
    chosen by what is seen of each request.
    """

    window: int | None = None
    tool_budget: int | None = None
    strict: bool = False
    tariff: str | None = None
    models: bytes = b""
    tell_repeats: bool = False
    manages_small: bool = True
    scaled: bool = True
    parts: bool = True
    counted: bool = True
    host: str = ""
    others: tuple[NamedUpstream, ...] = ()

    def provider_of(self, dialect: str, model: str | None) -> tuple[str, str | None]:
        """The host of whoever gets a request, and the tariff that is set there; None where none is."""
        takers = list_takers(self.others, (dialect,), model)
        return (takers[0].host, takers[0].tariff or self.tariff) if takers else (self.host, self.tariff)


@attrs.frozen(kw_only=True)
class TakenSettings:
    """The settings that a session's requests are decided with, their tariff among them, and the ``mode`` of a branch
    that begins.
    """

    mode: Mode
    settings: ServerSettings


@attrs.frozen(kw_only=True)
class InputsSoFar:
    """What deciding asked of the world, and what came too late. The fields are those of GroundsNoted."""

    late: tuple[Awaited, ...] = ()
    late_calls: tuple[str, ...] = ()
    unread_calls: tuple[str, ...] = ()
    found: tuple[IndexFound, ...] = ()


@attrs.frozen(kw_only=True)
class HelperAnswer:
    """What a helper model made of a question. The fields are those of HelperAsked."""

    helper: str
    sentences: tuple[GroundedSentence, ...] = ()
    dropped: int = 0
    why: str | None = None
    nanodollars: int = 0


@attrs.frozen(kw_only=True)
class TakeSettings:
    """A request is decided with these settings."""

    at: int
    taken: TakenSettings


@attrs.frozen(kw_only=True)
class RecordInputs:
    """What was decided of a round stood on what was ``noted``, and on the mode that its request ``wanted``."""

    at: int
    branch: str
    turn: int
    attempt: int
    round: int
    noted: InputsSoFar
    wanted: Mode | None = None


@attrs.frozen(kw_only=True)
class RecordQuestion:
    """A helper model was asked a ``question``, and ``answered``. The other fields are those of HelperAsked."""

    at: int
    branch: str | None = None
    turn: int | None = None
    attempt: int | None = None
    round: int | None = None
    call: str | None = None
    question: str
    answered: HelperAnswer


def decide(
    command: TakeSettings | RecordInputs | RecordQuestion, taken: TakenSettings | None
) -> tuple[InputEvent, ...]:
    """What happens on a command, where these settings were ``taken`` last; nothing where it says nothing new."""
    match command:
        case TakeSettings():
            if command.taken == taken:
                return ()
            settings = command.taken.settings
            return (
                SettingsTaken(
                    at=command.at,
                    mode=command.taken.mode,
                    window=settings.window,
                    tool_budget=settings.tool_budget,
                    strict=settings.strict,
                    tariff=settings.tariff or API,
                    models=settings.models,
                    tell_repeats=settings.tell_repeats,
                    manages_small=settings.manages_small,
                    scaled=settings.scaled,
                    parts=settings.parts,
                    counted=settings.counted,
                ),
            )
        case RecordInputs():
            if command.wanted is None and command.noted == InputsSoFar():
                return ()
            fields = attrs.asdict(command, recurse=False)
            return (GroundsNoted(**attrs.asdict(fields.pop("noted"), recurse=False), **fields),)
        case RecordQuestion():
            fields = attrs.asdict(command, recurse=False)
            return (HelperAsked(**attrs.asdict(fields.pop("answered"), recurse=False), **fields),)


def after(taken: TakenSettings | None, event: InputEvent) -> TakenSettings | None:
    """The settings that were taken last, after an event."""
    if not isinstance(event, SettingsTaken):
        return taken
    settings = ServerSettings(
        window=event.window,
        tool_budget=event.tool_budget,
        strict=event.strict,
        tariff=event.tariff,
        models=event.models,
        tell_repeats=event.tell_repeats,
        manages_small=event.manages_small,
        scaled=event.scaled,
        parts=event.parts,
        counted=event.counted,
    )
    return TakenSettings(mode=event.mode, settings=settings)


def in_force(taken: TakenSettings | None, server: ServerSettings) -> ServerSettings:
    """The settings with which what is under way was begun; where the log does not say, its server's."""
    return taken.settings if taken is not None else server


def question_of(text: str, among: Collection[str], limit: int) -> bytes:
    """What a question to the index is known by: its text, the objects among which it looks, and how many it wants."""
    asked = "\0".join((text, str(limit), *sorted(among)))
    return sha256(asked.encode("utf-8", "replace")).digest()[:QUESTION_BYTES]
