"""Everything that passes the gateway is counted, whatever its result."""

import json

import pytest
import trio

from mnemosyne.http.gateway import FIRST_BYTE_BOUNDS, Waits
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.server import open_standin
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange
from tests.lab.provider.building import body, user
from tests.waiting import DEADLINE

BODY = json.dumps(body(user("hello"), stream=True)).encode()


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.0, 0), (0.05, 0), (0.051, 1), (120.0, len(FIRST_BYTE_BOUNDS) - 1), (999.0, -1)]
)
def test_wait_is_counted_under_the_first_bound_that_it_does_not_exceed(seconds: float, place: int) -> None:
    waits = Waits()
    waits.add(seconds)
    assert waits.counts[place] == 1
    assert waits.buckets[-1] == ("+Inf", 1)
    assert waits.seconds == seconds


async def test_replies_are_counted_by_dialect_and_status_with_others_as_other() -> None:
    async with open_standin() as standin, open_proxy(standin.url) as proxy:
        standin.script = from_data({"rules": [{"when": {"request": 2}, "reply": {"failure": {"status": 529}}}]})
        for path in ("/v1/messages", "/v1/messages", "/v1/models"):
            await exchange(proxy.url, path, BODY)
        assert proxy.traffic.replies == {("messages", 200): 1, ("messages", 529): 1, ("other", 405): 1}
        assert proxy.traffic.first_byte["messages"].buckets[-1] == ("+Inf", 2)
        assert proxy.traffic.request_bytes == 3 * len(BODY)
        assert proxy.traffic.reply_bytes > 0
        assert not proxy.traffic.errors


async def test_broken_reply_and_unreachable_provider_are_errors_of_their_kinds() -> None:
    async with open_standin() as standin, open_proxy(standin.url) as proxy:
        cut = {"text": "begun", "faults": [{"kind": "cut", "at": 4}]}
        standin.script = from_data({"rules": [{"reply": cut}]})
        with trio.fail_after(DEADLINE):
            await exchange(proxy.url, body=BODY)
        assert proxy.traffic.errors == {"reply_cut": 1}
    async with open_proxy("http://127.0.0.1:9") as proxy:
        assert (await exchange(proxy.url, body=BODY)).status == 502
        assert proxy.traffic.errors == {"upstream_unreachable": 1}
        assert not proxy.traffic.replies
