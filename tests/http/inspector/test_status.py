"""The status endpoints answer requests with the token."""

import json

import pytest

from mnemosyne.http.unfinished import Unfinished
from tests.http.proxying import TOKEN, Proxy, open_proxy
from tests.http.raw_client import RawReply, exchange

BEARER = (b"Authorization", b"Bearer " + TOKEN.encode())


async def get(proxy: Proxy, path: str, *headers: tuple[bytes, bytes]) -> RawReply:
    return await exchange(proxy.url, path, method="GET", headers=headers)


async def test_the_pages_on_health_and_readiness_need_no_token() -> None:
    ready = {"status": "ready", "database": {}, "worker": {}}
    async with open_proxy("http://127.0.0.1:9") as proxy:
        for path, told in (("/-/health", {"status": "ok"}), ("/-/ready", ready)):
            reply = await get(proxy, path)
            assert (reply.status, json.loads(reply.body)) == (200, told)


async def test_a_server_without_room_for_requests_is_not_ready() -> None:
    room = Unfinished(most=1000)
    async with open_proxy("http://127.0.0.1:9", unfinished=room) as proxy:
        with room.body() as part:
            part.take(2000)
            full = await get(proxy, "/-/ready")
            refused = await exchange(proxy.url, body=b"{}")
        ready = await get(proxy, "/-/ready")
    assert (full.status, json.loads(full.body)["status"], refused.status) == (503, "full", 503)
    assert (ready.status, json.loads(ready.body)["status"]) == (200, "ready")


@pytest.mark.parametrize("header", [None, b"Bearer wrong", b"Basic " + TOKEN.encode(), b"", TOKEN.encode()])
async def test_any_other_page_needs_the_token(header: bytes | None) -> None:
    shown = [(b"Authorization", header)] if header is not None else []
    async with open_proxy("http://127.0.0.1:9") as proxy:
        for path in ("/-/status", "/-/metrics"):
            assert (await get(proxy, path, *shown)).status == 401
            assert (await get(proxy, path, BEARER)).status == 200


async def test_a_missing_page_is_404_and_never_forwarded_to_the_provider() -> None:
    async with open_proxy("http://127.0.0.1:9") as proxy:
        for path in ("/-/nothing", "/-", "/-/"):
            reply = await get(proxy, path, BEARER)
            assert (reply.status, json.loads(reply.body)["error"]["type"]) == (404, "not_found_error")


async def test_marking_the_owner_s_session_needs_the_token_and_a_name() -> None:
    named = (b"x-mnemosyne-session", b"s")
    async with open_proxy("http://127.0.0.1:9") as proxy:

        async def post(*headers: tuple[bytes, bytes]) -> int:
            return (await exchange(proxy.url, "/-/owner", b"", headers=list(headers))).status

        for more in ((), ((b"x-mnemosyne-ended", b"1"),)):
            assert [await post(*each, *more) for each in ((named,), (BEARER,), (BEARER, named))] == [401, 400, 200]
        assert (await get(proxy, "/-/owner", BEARER)).status == 405
