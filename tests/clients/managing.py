"""Invariants of a managed conversation of a real agent."""

import itertools
import json

from mnemosyne_lab.provider.reading import Body
from tests.clients.workspace import Visit
from tests.http.managing import prompt_blocks


def assert_managed(at: Visit) -> None:
    """The provider found no violation, and received each conversation as a history that only grows."""
    found = [str(each) for each in at.standin.violations]
    assert found == [], found
    assert {each.status for each in at.standin.messages} == {200}
    lanes: dict[str, list[Body]] = {}
    for each in at.standin.messages:
        body = each.json()
        if body.get("tools"):
            agent = each.header("x-claude-code-agent-id") or each.header("x-session-id") or ""
            lanes.setdefault(agent, []).append(body)
            assert "memory_query" in json.dumps(body["tools"])
            assert json.dumps(body).count('"cache_control"') <= 4
    for bodies in lanes.values():
        for before, after in itertools.pairwise(bodies):
            earlier = prompt_blocks(dict(before))
            assert prompt_blocks(dict(after))[: len(earlier)] == earlier
