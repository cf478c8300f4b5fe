"""The task that fetches one reply, in one or more rounds. It runs in the application's nursery."""

import logging
from contextlib import aclosing

import attrs
import trio

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead, Upstream, UpstreamRequest
from mnemosyne.domain.wire.reply import describe, json_object
from mnemosyne.errors import CannotForward, MnemosyneError, ReplyCut, release_frames
from mnemosyne.http.client_reply import ClientReply, RelayProgress
from mnemosyne.http.headers import request_with
from mnemosyne.http.reply_copy import copy_for, pass_on
from mnemosyne.http.reply_rounds import SplicedRounds, chain, decode, read_error
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
        prepared = await self.client.turn.prepare()
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
        """Pass the provider's bytes through unchanged, unless another request replaces a refused one."""
        async with self._upstream.exchange(request, self.client.turn.note_sent) as exchange:
            head = exchange.head
            if self._instead is None or head.status < 400 or head.status == 429:
                await safely(self.client.turn.note_begun())
                async with aclosing(exchange.chunks()) as chunks:
                    begun, cut = await read_error(chunks) if head.status == 400 else ([], None)
                    if not (begun and await self._may_retry(decode(head, begun), head)):
                        async with aclosing(chain(begun, chunks, cut) if begun or cut else chunks) as passed:
                            await pass_on(passed, copy_for(head, self._dialect), head, self.client)
                        return
                self._instead = request_with(self._request, (await self.client.turn.prepare()).body or b"")
        log.warning("a request got HTTP %d; another is sent in its place", head.status)
        own, self._instead = self._instead, None
        await self._pass_on(own)

    async def _may_retry(self, error: bytes, head: ReplyHead) -> bool:
        """Begin another attempt at a turn whose request got this error, if there is one."""
        reply = describe(json_object(error), error, complete=True)
        again = await self.client.turn.try_again(reply, head.status)
        if again is not None:
            await self.client.retry(again, head, reply)
        return again is not None
