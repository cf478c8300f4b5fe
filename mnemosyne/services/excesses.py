"""Managed requests that exceeded the window promised for them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from mnemosyne.domain.history import excess
from mnemosyne.domain.history.excess import Excess
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.services.sessions import Archive


async def read_excesses(
    archive: Archive, streams: Sequence[UUID], wanted: int | None
) -> Mapping[UUID, Sequence[Excess]]:
    """The excesses of each session that has any. ``wanted`` is the window setting to use if none is recorded. Raises
    LogFailed.
    """
    histories = [(stream, history_of(str(stream), await archive.events.read(stream))) for stream in streams]
    found = {stream: list(excess.excesses(history, wanted)) for stream, history in histories}
    return {stream: each for stream, each in found.items() if each}
