"""Send spans to a collector every two seconds; drop them rather than wait for it."""

import logging
from collections.abc import Callable
from typing import Never

import httpx2
import trio

from mnemosyne.adapters.otlp import send_spans
from mnemosyne.adapters.outbound import open_client
from mnemosyne.domain.ports import Append
from mnemosyne.errors import LogFailed, UpstreamFailed
from mnemosyne.services.spans import SpanMaker, TraceSpan

log = logging.getLogger(__name__)

SEND_SECONDS = 2.0

ANSWER_SECONDS = 10.0
"""Time limit for the collector."""

MOST_WAITING = 4096
"""Maximum number of waiting spans; beyond that, new spans are dropped."""


class SpanSender:
    """Makes spans from appends and sends them. ``now`` returns µs of UTC."""

    def __init__(self, endpoint: str, now: Callable[[], int]) -> None:
        self._endpoint = endpoint
        self._now = now
        self._maker = SpanMaker()
        self._waiting: list[TraceSpan] = []
        self._dropped = 0

    def note(self, append: Append, size: int, seconds: float, error: LogFailed | None) -> None:
        """Note that an append of ``size`` bytes ended ``seconds`` after it was queued (journal.Outcomes)."""
        if error is not None:
            return
        ended = self._now()
        spans = list(self._maker.spans_of(append, size, ended - int(seconds * 1_000_000), ended))
        room = max(0, MOST_WAITING - len(self._waiting))
        self._waiting += spans[:room]
        self._dropped += len(spans[room:])

    async def run(self) -> Never:
        """Send waiting spans until cancelled; then once more."""
        client, ignored = open_client(self._endpoint, timeout=ANSWER_SECONDS)
        for sentence in ignored:
            log.warning("%s", sentence)
        async with client:
            is_well = True
            try:
                while True:
                    await trio.sleep(SEND_SECONDS)
                    is_well = await self._send(client, is_well)
            finally:
                with trio.move_on_after(SEND_SECONDS, shield=True):
                    await self._send(client, is_well)

    async def _send(self, client: httpx2.AsyncClient, was_well: bool) -> bool:
        """Send the waiting spans, or drop them on failure; return whether they were sent. Log only changes."""
        spans, self._waiting = self._waiting, []
        if not spans:
            return was_well
        try:
            await send_spans(client, self._endpoint, spans)
        except UpstreamFailed as error:
            self._dropped += len(spans)
            if was_well:
                log.warning("Spans are being dropped: %s", error)
            return False
        if not was_well:
            log.warning("Spans are sent again; %d were dropped.", self._dropped)
            self._dropped = 0
        return True
