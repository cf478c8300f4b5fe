"""The managed requests of sessions that were larger than the window that they were promised."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from mnemosyne.domain.history import excess
from mnemosyne.domain.history.excess import Excess
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.services.sessions import Archive


async def read_excesses(
    archive: Archive, streams: Sequence[UUID], wanted: int | None
) -> Mapping[UUID, Sequence[Excess]]:
    """Those of each session, as far as it has any. ``wanted`` is the setting, for where none is on record. Raises
    LogFailed.
    """
    histories = [(stream, history_of(str(stream), await archive.events.read(stream))) for stream in streams]
    found = {stream: list(excess.excesses(history, wanted)) for stream, history in histories}
    return {stream: each for stream, each in found.items() if each}
