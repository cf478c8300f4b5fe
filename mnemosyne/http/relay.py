"""The task that fetches one reply, in one or more rounds. It runs in the application's nursery."""

import logging
from contextlib import aclosing

import attrs
import trio

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import Upstream, UpstreamRequest
from mnemosyne.errors import CannotForward, MnemosyneError, ReplyCut, release_frames
from mnemosyne.http.client_reply import ClientReply, RelayProgress
from mnemosyne.http.headers import request_with
from mnemosyne.http.reply_copy import pass_on, reading_of
from mnemosyne.http.reply_rounds import SplicedRounds
from mnemosyne.http.turn_log import TurnLog, safely

log = logging.getLogger(__name__)


class Relay:
    """Fetches one reply in ``run``; its client gets it from ``client``."""

    def __init__(
        self,
        upstream: Upstream,
        request: UpstreamRequest,
        turn: TurnLog,
        progress: RelayProgress,
        dialect: Dialect,
        instead: UpstreamRequest | None = None,
    ) -> None:
        """``instead`` is sent if the provider refuses the request, which the proxy changed."""
        self._instead = instead
        self.client = ClientReply(turn, progress)
        self._upstream = upstream
        self._request = request
        self._turn = turn
        self._dialect = dialect
        self._progress = progress

    async def run(self) -> None:
        """Fetch the reply and record the result. Never raises: the client gets the failure in its own dialect."""
        failure: MnemosyneError | None = None
        self._progress.running += 1
        try:
            with self.client.scope:
                await self._fetch()
        except CannotForward as error:
            failure = release_frames(error)
        except ReplyCut as error:
            failure = release_frames(error)
            log.warning("%s", error)
        except Exception:
            failure = ReplyCut("the relay failed; see the server's log.")
            log.exception("a relay failed")
        finally:
            with trio.CancelScope(shield=True):
                await self.client.record_unfinished(failure)
            self.client.close(failure)
            self._progress.running -= 1

    async def _fetch(self) -> None:
        prepared = await self._turn.prepare()
        if prepared.hidden and prepared.body is not None:
            await SplicedRounds(
                self._upstream,
                attrs.evolve(self._request, body=prepared.body),
                self.client,
                prepared.hidden,
                self._dialect,
                hides_verdict=prepared.hides_verdict,
            ).fetch()
        else:
            await self._pass_on(self._request if prepared.body is None else request_with(self._request, prepared.body))

    async def _pass_on(self, request: UpstreamRequest) -> None:
        """Pass the provider's bytes through unchanged."""
        async with self._upstream.exchange(request, self._turn.note_sent) as exchange:
            if self._instead is None or exchange.head.status < 400 or exchange.head.status == 429:
                await safely(self._turn.note_begun())
                async with aclosing(exchange.chunks()) as chunks:
                    await pass_on(chunks, reading_of(exchange.head, self._dialect), exchange.head, self.client)
                return
        log.warning("a request got HTTP %d; the client's own is sent", exchange.head.status)
        own, self._instead = self._instead, None
        await self._pass_on(own)
