"""Inputs of a session's decisions beyond its events: the server's settings, and which results arrived in time.

Both are recorded with the decision, so that it can be replayed.
"""

from collections.abc import Collection
from hashlib import sha256

import attrs

from mnemosyne.domain.cost.tariffs import API
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.input_events import (
    GroundsNoted,
    HelperAnswer,
    HelperAsked,
    HelperWorked,
    InputEvent,
    InputsSoFar,
    RecordedSettings,
    SettingsTaken,
)
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.upstreams import NamedUpstream, list_takers

QUESTION_BYTES = 8
"""Length of a question's truncated hash: enough to distinguish the questions of one turn."""

GROUNDINGS = ("free", "cited", "strict")
"""How the model may use what left its context, from the least strict on."""


@attrs.frozen(kw_only=True)
class ServerSettings(RecordedSettings):
    """The settings of a server that determine its requests upstream: the recorded ones, the upstream's ``host``, and
    ``others``: upstreams that receive some of the requests instead. If ``tariff`` is None, it is inferred from each
    request. ``choices`` are the names that a request's headers may choose.
    """

    host: str = ""
    others: tuple[NamedUpstream, ...] = ()
    choices: tuple[str, ...] = ()

    def provider_of(self, dialect: str, model: str | None) -> tuple[str, str | None]:
        """The host of the upstream that receives a request, and the tariff configured for it, if any."""
        takers = list_takers(self.others, (dialect,), model)
        return (takers[0].host, takers[0].tariff or self.tariff) if takers else (self.host, self.tariff)


NOTHING_FOUND = "it finds no answer in what it was given"
"""The recorded reason for an answer without sentences that the model meant."""


def finds_nothing(helped: HelperAnswer | None) -> bool:
    """Whether a helper model's answer is that memory does not contain one. In the first version of the task, quotes
    followed.
    """
    return helped is not None and helped.why == NOTHING_FOUND and helped.version >= 2


@attrs.frozen(kw_only=True)
class RecordWork(HelperWorked):
    """Record work of a helper model."""


@attrs.frozen(kw_only=True)
class RecordQuestion(HelperAsked):
    """Record a question to a helper model and its answer."""


def decide(command: RecordQuestion | RecordWork) -> tuple[HelperAsked | HelperWorked]:
    """The event that records a helper model's answer or work."""
    recorded = HelperWorked if isinstance(command, RecordWork) else HelperAsked
    return (recorded(**attrs.asdict(command, recurse=False)),)


def record_settings(new: RecordedSettings, mode: Mode, taken: SettingsTaken | None, at: int) -> tuple[InputEvent, ...]:
    """The event that records the settings of a decision, tariff included, and the ``mode`` of new branches; none if
    they equal those ``taken`` last.
    """
    event = SettingsTaken(at=at, mode=mode, **new.as_fields() | {"tariff": new.tariff or API})
    return () if taken is not None and event == attrs.evolve(taken, at=at) else (event,)


def record_inputs(
    noted: InputsSoFar, address: Address, number: int, at: int, wanted: Mode | None = None
) -> tuple[InputEvent, ...]:
    """The event that records the inputs of the decision about a turn's round ``number``, and the mode that its request
    ``wanted``; none if there is nothing to record.
    """
    if wanted is None and noted == InputsSoFar():
        return ()
    inputs = attrs.asdict(noted, recurse=False)
    return (GroundsNoted(at=at, **attrs.asdict(address), round=number, wanted=wanted, **inputs),)


def in_force(taken: SettingsTaken | None, server: ServerSettings) -> ServerSettings:
    """The recorded settings of the session; the server's own if the log holds none."""
    return ServerSettings(**taken.as_fields()) if taken is not None else server


def question_of(text: str, among: Collection[str], limit: int) -> bytes:
    """The truncated hash that identifies an index query: its text, the objects to search, and the result limit."""
    query = "\0".join((text, str(limit), *sorted(among)))
    return sha256(query.encode("utf-8", "replace")).digest()[:QUESTION_BYTES]
