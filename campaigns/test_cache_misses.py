"""Sessions of 200 turns: twelve injected cache misses, and our own rewrites. Each is named with its byte, its culprit
and its cost.
"""

import json
from collections.abc import Mapping

from mnemosyne.domain.cost.cache_misses import Culprit, MissCause
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.services.cache_misses import STARTS, read_misses
from mnemosyne.services.cache_verdicts import Agreement, read_agreement
from tests.blocks import text
from tests.http.managing import bare
from tests.http.test_cache_verdicts import open_known
from tests.http.test_epochs import SMALL, client_of, reads
from tests.plain.archive import MemoryArchive
from tests.services.talking import talking
from tests.services.test_cache_misses import WORDS, Client, explain, record, tool


def inject(client: Client, turn: int) -> bool:
    """The misfortune of a turn, before its request."""
    match turn:
        case 20:
            client.at += 6 * 60
        case 40:
            client.tools.append(tool("mcp__github__merge"))
        case 60:
            client.system = client.system.replace("an agent", "an agent on a Monday")
        case 80:
            client.messages[6]["content"].append(text("<system-reminder>notes.md changed.</system-reminder>"))
        case 100:
            client.messages[8]["content"][0] = text("Something else. " + WORDS)
        case 110:
            client.model = "claude-opus-4-6"
        case 120:
            client.betas = "oauth-2025-04-20"
        case 130:
            client.effort = "high"
        case 140:
            client.messages[-1]["content"] += [text(f"part {number}") for number in range(25)]
        case 160 | 161:
            client.has_marker = turn == 161
        case 180:
            client.at += 61 * 60
        case _:
            pass
    return turn in (120, 190)


INJECTED: Mapping[int, tuple[MissCause, Culprit, str | None, bytes | None]] = {
    20: (MissCause.EXPIRY, Culprit.TIME, "5m", None),
    40: (MissCause.TOOLS, Culprit.MCP, "mcp__github__merge", b'{"name":"mcp__github__merge"'),
    60: (MissCause.SYSTEM, Culprit.CLIENT, None, b" on a Monday"),
    80: (MissCause.MESSAGES, Culprit.HOOK, None, b'{"type":"text","text":"<system-reminder>notes'),
    100: (MissCause.MESSAGES, Culprit.CLIENT, None, b"Something else."),
    110: (MissCause.MODEL, Culprit.USER, "model", b'"claude-opus-4-6"'),
    120: (MissCause.ROUTE, Culprit.CLIENT, "the beta context-1m-2025-08-07", None),
    130: (MissCause.SETTING, Culprit.CLIENT, "output_config", b'{"effort":"high"}'),
    140: (MissCause.LOOKBACK, Culprit.CLIENT, None, None),
    160: (MissCause.MARKER, Culprit.CLIENT, None, None),
    180: (MissCause.EXPIRY, Culprit.TIME, "5m", None),
    190: (MissCause.PROVIDER, Culprit.PROVIDER, None, None),
}


async def test_each_of_twelve_injected_misses_is_named_and_nothing_else_is() -> None:
    async with talking() as talk:
        bodies = await record(talk, Client(), 200, inject)
        found = await explain(talk)
        judged = await read_agreement(talk.archive, [talk.stream])
    assert judged == Agreement(agreed=198, differing=[], inconclusive={"no comparison": 1})  # the effort, turn 130
    assert len(found) == 200
    assert [turn for turn, each in enumerate(found, 1) if each.reading.cold] == [1, *INJECTED]
    for turn, each in enumerate(found, 1):
        if turn not in INJECTED:
            continue
        cause, culprit, name, place = INJECTED[turn]
        (priced,) = each.causes
        assert (priced.cold.cause, priced.cold.culprit, priced.cold.name) == (cause, culprit, name), turn
        assert priced.nanodollars, turn
        assert priced.cold.tokens == each.reading.cold == each.reading.expected - each.reading.read
        if place is not None:
            assert priced.cold.change is not None
            assert bodies[turn - 1][priced.cold.change.offset :].startswith(place), turn


async def test_each_miss_of_a_managed_session_is_a_rewrite_of_ours_and_the_provider_agrees() -> None:
    async with open_known(window=SMALL) as stage:
        await reads(client_of(stage), stage, {"content": []}, 200, size=100)
        stream, archive = await stage.stream(), MemoryArchive(stage.log)
        events = await archive.events.read(stream)
        found = await read_misses(archive, stream, events, history_of(str(stream), events))
        judged = await read_agreement(archive, [stream])
        rewritten = {each.turn for each in await stage.events_of(EpochBegan)}
        sent = [each.body for each in stage.standin.messages]
    assert len(found) == len(sent) >= 200
    missed = [(number, each) for number, each in enumerate(found) if any(cause.is_miss for cause in each.causes)]
    assert {each.address.turn for _, each in missed} == rewritten
    assert len(rewritten) >= 10
    for number, each in missed:
        (cold,) = (cause.cold for cause in each.causes)
        assert (cold.cause, cold.culprit) == (MissCause.REWRITE, Culprit.PROXY)
        assert cold.tokens == each.reading.expected - each.reading.read > 0
        assert cold.change is not None
        assert cold.change.message is not None
        before, now = (bare(json.loads(sent[each])["messages"]) for each in (number - 1, number))
        place = cold.change.message
        assert before[:place] == now[:place]
        assert before[place] != now[place]
        assert sent[number][: cold.change.offset].count(b'"role":') == place + 1  # the byte is in this message
    assert all(cause.cold.cause in STARTS for each in found for cause in each.causes if not cause.is_miss)
    assert (len(judged.differing), judged.inconclusive) == (0, {})
    assert judged.agreed == len(found) - 1
