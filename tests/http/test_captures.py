"""Captured requests of real clients and their replies pass byte for byte in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.http.headers import HOP_BY_HOP
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange

CAPTURES = Path(__file__).parents[3] / "shared" / "data" / "captures"

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="the recorded captures are not beside the repository")

RUNS = sorted(CAPTURES.iterdir()) if CAPTURES.is_dir() else []

LEFT_OUT = HOP_BY_HOP | {b"host", b"content-length"}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.name))
async def test_every_recorded_exchange_passes_byte_for_byte(run: Path) -> None:
    recorded = recorded_in(run)
    async with open_playback([reply for _, reply in recorded]) as provider, open_proxy(provider.url) as proxy:
        for request, (_, payload) in recorded:
            headers = [(name.encode(), value.encode()) for name, value in request["headers"]]
            headers = [pair for pair in headers if pair[0].lower() not in LEFT_OUT]
            sent = (request["method"], request["path"], headers, request["wire"])
            got = await exchange(proxy.url, sent[1], sent[3], method=sent[0], headers=headers)
            method, target, seen, body = provider.requests[-1]
            assert (method, target, [pair for pair in seen if pair[0].lower() not in LEFT_OUT], body) == sent
            assert (got.status, got.cut, got.body) == (200, False, payload)


def recorded_in(run: Path) -> list[tuple[dict[str, Any], tuple[str, bytes]]]:
    """The requests of a capture with their bytes as the client would write them, and their replies."""
    recorded = []
    for path in sorted(run.glob("*.json")):
        request = json.loads(path.read_text())
        body = request.get("body")
        request["wire"] = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() if body else b""
        reply = path.with_suffix(".reply.txt")
        payload = reply.read_bytes() if reply.exists() else b""
        streamed = payload.startswith((b"event:", b"data:", b":"))
        recorded.append((request, ("text/event-stream" if streamed else "application/json", payload)))
    return recorded
