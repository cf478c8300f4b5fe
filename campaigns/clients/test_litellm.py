"""LiteLLM's proxy behind this one and in front of it: a managed session streams, and errors and models pass."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import Message, MessageParam

from benchmarks.harness import serve_process
from benchmarks.litellm_server import install
from mnemosyne.domain.tools.memory_tools import NAMES
from tests.clients.managing import assert_managed
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_anthropic_sdk import LOOP, MODEL, TOOLS, answered
from tests.clients.workspace import serving, visit

pytestmark = [pytest.mark.clients, pytest.mark.release]


@contextmanager
def litellm(upstream: str, folder: Path) -> Iterator[tuple[str, int]]:
    """The URL of LiteLLM's proxy for this upstream, and the id of its parent. Skips where it cannot be installed."""
    try:
        install()
    except subprocess.CalledProcessError:
        pytest.skip("LiteLLM cannot be installed here")
    with serve_process([sys.executable, "-m", "benchmarks.litellm_server", upstream, str(folder)], folder) as served:
        yield f"http://{served[0].host}:{served[0].port}", served[1]


@pytest.mark.parametrize("behind_us", [True, False], ids=["behind this proxy", "in front of it"])
def test_litellm_and_this_proxy_do_not_disturb_each_other(behind_us: bool, tmp_path: Path) -> None:
    with ExitStack() as stack:
        standin = stack.enter_context(standin_in_a_thread())
        if behind_us:
            other, _ = stack.enter_context(litellm(standin.url, tmp_path / "litellm"))
            server = stack.enter_context(serving(standin, "--manage", "--upstream", other))
        else:
            server = stack.enter_context(serving(standin, "--manage"))
            other, _ = stack.enter_context(litellm(server.url, tmp_path / "litellm"))
        door = server.url if behind_us else other
        for stream in (True, False):
            at = visit(server)
            at.script({"replies": LOOP})
            said = work_to_the_end(door, f"where is it? (stream {stream})", stream=stream)
            assert said[-1] == "It is there."
            assert not [name for name in NAMES if name in json.dumps(said)]
            assert_managed(at)
            assert len(at.conversations()) == 1
        for status, shown in ((400, 400), (529, 500)):  # LiteLLM makes a 500 of 529
            at.script({"reply": {"failure": {"status": status, "message": "None of that."}}})
            with (
                anthropic.Anthropic(base_url=door, api_key="k", max_retries=0) as client,
                pytest.raises(anthropic.APIStatusError, match="None of that") as refused,
            ):
                client.messages.create(model=MODEL, max_tokens=99, messages=[{"role": "user", "content": "go"}])
            assert refused.value.status_code == shown
        models = [httpx2.get(f"{url}/v1/models", headers={"x-api-key": "k"}) for url in (door, other)]
        assert [each.status_code for each in models] == [200, 200]
        assert models[0].json() == models[1].json()
        assert MODEL in models[0].text


def work_to_the_end(url: str, prompt: str, *, stream: bool) -> list[Any]:
    """Play the client of a tool loop; return its messages, and the texts of the last reply."""
    said: list[MessageParam] = [{"role": "user", "content": prompt}]
    message: Message
    with anthropic.Anthropic(base_url=url, api_key="k") as client:
        while True:
            if stream:
                with client.messages.stream(model=MODEL, max_tokens=99, messages=said, tools=TOOLS) as reply:
                    message = reply.get_final_message()
            else:
                message = client.messages.create(model=MODEL, max_tokens=99, messages=said, tools=TOOLS)
            if message.stop_reason != "tool_use":
                return [*said, *(block.text for block in message.content if block.type == "text")]
            said += answered(message)
