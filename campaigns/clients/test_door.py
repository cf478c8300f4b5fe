"""A client's requests through the proxy equal its direct requests: checked with real clients, which cannot
distinguish the scripted provider from the real one.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from campaigns.clients.first_party import FirstParty, first_party
from mnemosyne.http.headers import HOP_BY_HOP
from tests.clients.agents import ONE_IN_CI
from tests.clients.workspace import Server, Workspace

pytestmark = pytest.mark.clients

CREDENTIALS = {
    "key": {"ANTHROPIC_API_KEY": "sk-ant-api03-a-dummy"},
    "token": {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-a-dummy"},
}

LOST = {"claude": ["mid-conversation-system-clear-at-2026-08-21"], "opencode": []}
"""Betas that are only sent to the provider's own host, whatever the client is told; docs/clients.md names them."""

UNLIKE = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=cch=)[0-9a-f]+|ses_\w+")
"""What differs between any two runs: ids, and a client's checksum over its body."""


@pytest.fixture(scope="module")
def way(server: Server) -> Iterator[FirstParty]:
    with tempfile.TemporaryDirectory() as folder, first_party(server.standin.port, Path(folder)) as opened:
        yield opened


Request = tuple[list[tuple[str, bytes]], list[str], bytes]


def first_requests(workspace: Workspace) -> list[Request]:
    """A client's message requests since then: raw headers, betas, body; the shortest first."""
    found = []
    for exchange in workspace.standin.messages:
        headers = [
            (name.decode().lower(), UNLIKE.sub(b"", value))
            for name, value in exchange.headers
            if name.lower() not in HOP_BY_HOP | {b"host", b"anthropic-beta"}
        ]
        betas = (exchange.header("anthropic-beta") or "").split(",")
        found.append((sorted(headers), betas, UNLIKE.sub(b"", exchange.body)))
    workspace.standin.exchanges.clear()
    return sorted(found, key=lambda request: len(request[2]))


@pytest.mark.parametrize(
    "credential",
    [
        pytest.param(CREDENTIALS["key"], id="key"),
        pytest.param(CREDENTIALS["token"], id="token", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_first_request_equals_a_direct_one(
    credential: Mapping[str, str], workspace: Workspace, way: FirstParty
) -> None:
    if workspace.agent.name == "opencode" and not credential["ANTHROPIC_API_KEY"]:
        pytest.skip("opencode takes no token of a subscription")
    workspace.script({"reply": {"text": "Good day."}})
    workspace.run_alone("Good day", **credential, **way.environment)
    direct = first_requests(workspace)
    # Other requests go to the provider's own host even with a base URL, such as those for the organisation's policy.
    workspace.run("Good day", goes_on=False, options=(), **credential, **way.environment)
    through_us = first_requests(workspace)
    assert direct
    lost = LOST[workspace.agent.name]
    assert [headers for headers, _, _ in through_us] == [headers for headers, _, _ in direct]
    assert [betas for _, betas, _ in through_us] == [
        [beta for beta in betas if beta not in lost] for _, betas, _ in direct
    ]
    assert [body.decode() for _, _, body in through_us] == [body.decode() for _, _, body in direct]
    if workspace.agent.name == "claude":
        ((_, betas, body),) = through_us
        assert b'"scope":"global"' in body
        assert b'"diagnostics"' in body
        assert "prompt-caching-scope-2026-01-05" in betas
        assert set(lost) < set(direct[0][1]), "what docs/clients.md calls lost is sent by this version"
