"""Screenshots are evicted like any other tool result, restored byte for byte, and lower the bill."""

import base64
import json
import random
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from mnemosyne.actors import tools
from mnemosyne.domain.cost.catalogue import cost
from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.recall.memory_results import IMAGES_NOT_SHOWN
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Client, Json, Stage, assert_nothing_of_ours, bare, bare_stage, restore, text, think
from tests.http.test_epochs import Clock, answer, violations

WINDOW = 14_000
SHOTS = 30

PAUSE = 400
"""Seconds; a cache of five minutes is cold by then."""

SCREENSHOT = {"name": "screenshot", "description": "Takes one.", "input_schema": {"type": "object"}}


def png(seed: int) -> bytes:
    """A small file with the header of an image of 1440 by 900 pixels, so that it counts as many tokens."""
    header = struct.pack(">I4sII", 13, b"IHDR", 1440, 900)
    return b"\x89PNG\r\n\x1a\n" + header + random.Random(seed).randbytes(3_700)


def image(data: bytes, media: str = "image/png") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": base64.b64encode(data).decode()}}


def shot(number: int) -> Json:
    return image(png(number))


async def walk(client: Client, stage: Stage, attached: list[Json], pause: Callable[[], None] = lambda: None) -> Json:
    """The agent looks at one page after the other; each call gets the next attachment as result, after a ``pause``."""
    content = [text("Walk through the pages.")]
    for number, each in enumerate(attached):
        pause()
        call = {"type": "tool_use", "name": "screenshot", "input": {"page": f"/p{number}"}}
        answer(stage, [think(), text(f"Now page {number}."), call])
        message = await client.turn(*content)
        content = [
            {
                "type": "tool_result",
                "tool_use_id": message["content"][-1]["id"],
                "content": [text(f"Page {number}:"), each],
            }
        ]
    answer(stage, [text("All pages are there.")])
    return await client.turn(*content)


def jump(trios: MockClock, ours: Clock) -> None:
    """Let all caches expire: the scripted provider's cache uses trio's clock."""
    trios.jump(PAUSE)
    ours.now += PAUSE * 1_000_000


def images_in(body: Json) -> list[str]:
    """The data of every image of a request, in order."""
    found: list[str] = []

    def look(value: Any) -> None:
        match value:
            case {"type": "image", "source": {"data": str(data)}}:
                found.append(data)
            case dict():
                for each in value.values():
                    look(each)
            case list():
                for each in value:
                    look(each)

    look(body["messages"])
    return found


def spent(stage: Stage) -> int:
    """The provider's charge in nanodollars."""
    used = Tokens()
    for each in stage.standin.messages:
        (start,) = [line for line in each.payload.decode().splitlines() if '"message_start"' in line and "data" in line]
        used += tokens_of(json.loads(start.removeprefix("data: "))["message"]["usage"]) or Tokens()
    return cost(used, "claude-opus-5-5") or 0


async def test_thirty_screenshots_cost_at_most_half_if_the_cache_expires_between_them(
    loopback_clock: MockClock,
) -> None:
    dollars = {}
    for mode in (Mode.OBSERVE, Mode.MANAGE):
        clock = Clock()
        async with bare_stage(mode=mode, window=WINDOW, clock=iter(clock)) as stage:
            client, shots = Client(stage.url, tools=[SCREENSHOT]), [shot(each) for each in range(SHOTS)]
            await walk(client, stage, shots, partial(jump, loopback_clock, clock))
            assert violations(stage) == []
            dollars[mode] = spent(stage)
            assert (max(len(images_in(body)) for body in stage.upstream) == SHOTS) is (mode is Mode.OBSERVE)
    assert dollars[Mode.MANAGE] <= dollars[Mode.OBSERVE] / 2


def results_in(body: Json) -> list[Json]:
    """The results of the last message's calls."""
    return [block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"]


def pdf(pages: int) -> Json:
    count = b"".join(b"%d 0 obj\n<</Type /Page>>\nendobj\n" % at for at in range(1, pages + 1))
    data = base64.b64encode(b"%PDF-1.4\n" + count + b"%%EOF\n").decode()
    return {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}


async def evict_and_restore(*walks: list[Json], most: int = 1) -> tuple[list[Json], list[Json]]:
    """Evict attachments, then restore the first objects in a larger window; return the evicted ones and the results."""
    clock, log, found = Clock(), StoppableLog(), []
    async with open_standin({"rules": []}) as standin:
        async with bare_stage(standin=standin, log=log, window=WINDOW, clock=iter(clock)) as stage:
            client = Client(stage.url, tools=[SCREENSHOT])
            for attached in walks:
                await walk(client, stage, attached)
        attached = [each for one in walks for each in one]
        gone = [each for each in attached if json.dumps(each) not in json.dumps(bare(stage.upstream[-1]))]
        assert len(gone) > len(attached) // 2
        async with bare_stage(standin=standin, log=log, clock=iter(clock)) as stage:
            client.url = stage.url
            made = [each for each in await stage.events() if isinstance(each, ObjectCreated) and each.source_tool]
            for each in made[:most]:
                answer(stage, [restore(each.object)], [text("I see.")])
                await client.turn(text("What was there?"))
                found += results_in(stage.upstream[-1])
        assert violations(stage) == []
        assert_nothing_of_ours(client)
    return gone, found


async def test_every_evicted_screenshot_is_restored_byte_for_byte() -> None:
    gone, results = await evict_and_restore([shot(each) for each in range(SHOTS)], most=SHOTS)
    back = json.dumps(bare(results))
    assert [each for each in gone if json.dumps(each) not in back] == []


@pytest.mark.parametrize(("pages", "fits"), [(2, True), (3, False)])
async def test_evicted_pdf_is_restored_byte_for_byte_if_the_turn_has_room_for_the_object(
    pages: int, fits: bool
) -> None:
    """A page may have 3,000 tokens, and a turn restores 8,192 at most."""
    brought = pdf(pages)
    _, (result,) = await evict_and_restore([brought, *[text("Nothing.")] * 3], [shot(each) for each in range(12)])
    assert (json.dumps(brought) in json.dumps(bare(result))) is fits
    assert result.get("is_error", False) is not fits


async def test_image_restore_is_refused_where_results_hold_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "dialect_of", lambda conversation: attrs.evolve(MESSAGES, attaches=False))
    _, (result,) = await evict_and_restore([shot(each) for each in range(15)])
    assert (result["is_error"], result["content"]) == (True, IMAGES_NOT_SHOWN)
