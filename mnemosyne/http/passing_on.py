"""Pass a reply to the client unchanged while reading a copy."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import trio

from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.errors import ReplyCut
from mnemosyne.http.client_reply import ClientReply
from mnemosyne.http.reading import ReplyReading
from mnemosyne.http.splicing import EndOfReply, Output, ToClient


async def pass_on(chunks: AsyncIterator[bytes], reading: ReplyReading, head: ReplyHead, client: ClientReply) -> None:
    """Pass a reply with this head to the client and record its end. Raises ReplyCut if it is cut off."""
    client.watch(reading.reply.result)
    client.begin(head)
    async with aclosing(_outputs(chunks, reading)) as outputs:
        async for output in outputs:
            if isinstance(output, EndOfReply):
                await client.record(lambda: client.turn.note_finished(head, reading.reply.result()))
            await client.hand_over(output.raw)


async def _outputs(chunks: AsyncIterator[bytes], reading: ReplyReading) -> AsyncGenerator[Output, None]:
    cut: ReplyCut | None = None
    try:
        async for chunk in chunks:
            for outputs in reading.feed(chunk):
                await trio.lowlevel.checkpoint()
                for output in outputs:
                    yield output
    except ReplyCut as error:
        cut = error
    for output in reading.close():
        # A reply that is cut off has no end: send the held bytes as ordinary ones, then break the connection.
        yield ToClient(output.raw) if cut else output
    if cut is not None:
        raise cut
