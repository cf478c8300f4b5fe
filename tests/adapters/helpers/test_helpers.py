"""Helper models over real sockets: their requests, and HelperFailed for every fault."""

import json

import pytest
import trio

from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.helper.model import HelperFailed
from tests.adapters.endpoint import USED, open_endpoint, says
from tests.adapters.helpers.asking import ENVIRON, HELPERS, PROMPT, failure, open_both, settings

pytestmark = pytest.mark.parametrize("helper", HELPERS)


async def test_a_helper_is_sent_the_schema_and_reports_its_usage(helper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-the-clients")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with open_both(helper, lambda path, _: says(path, "the answer")) as (endpoint, model):
        completion = await model.complete(PROMPT)
    assert (completion.text, completion.used) == ("the answer", Tokens(input=USED[0], output=USED[1]))
    [(path, headers, body)] = endpoint.requests
    assert path == ("/v1/messages" if helper == "anthropic" else "/v1/chat/completions")
    assert body["model"] == "claude-haiku-5-5"
    assert body["max_tokens"] == PROMPT.most_tokens
    assert json.dumps(PROMPT.schema) in json.dumps(body)
    assert "sk-the-clients" not in str(headers)
    assert ("sk-ours" in str(headers)) == (helper == "anthropic")


async def test_an_unreachable_helper_costs_nothing_and_may_be_retried(helper: str) -> None:
    async with open_endpoint(lambda *_: None) as endpoint:
        gone = endpoint.url
    async with open_helper(settings(helper, gone), ENVIRON) as model:
        assert model is not None
        with pytest.raises(HelperFailed, match="no connection") as raised:
            await model.complete(PROMPT)
        with pytest.raises(HelperFailed):
            await model.check()
    assert raised.value.again
    assert not raised.value.billed


@pytest.mark.parametrize(("status", "again"), [(401, False), (404, False), (429, True), (500, True), (529, True)])
async def test_the_status_of_an_error_decides_about_a_retry(helper: str, status: int, again: bool) -> None:
    error = await failure(helper, lambda *_: (status, b'{"error": {"message": "you sent: SECRET"}}'))
    assert (error.again, error.billed) == (again, False)
    assert str(status) in str(error)
    assert "SECRET" not in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"null", b"{}", b'{"choices": []}', b'{"choices": [1], "content": 3}', b"[" * 9000]
)
async def test_an_invalid_answer_may_have_been_billed(helper: str, body: bytes) -> None:
    assert (await failure(helper, lambda *_: (200, body))).billed


async def test_a_truncated_reply_may_have_been_billed(helper: str) -> None:
    error = await failure(helper, lambda *_: None)
    assert error.billed
    assert error.again


async def test_a_slow_call_can_be_cancelled(helper: str) -> None:
    async with open_both(helper, lambda *_: None) as (endpoint, model):
        endpoint.slow = True
        with trio.move_on_after(0.05) as scope:
            await model.complete(PROMPT)
    assert scope.cancelled_caught


async def test_a_check_is_free(helper: str) -> None:
    listed = json.dumps({"id": "claude-haiku-5-5", "data": [{"id": "claude-haiku-5-5"}]}).encode()
    async with open_both(helper, lambda *_: (200, listed)) as (endpoint, model):
        await model.check()
    [(path, _, body)] = endpoint.requests
    assert path.startswith("/v1/models")
    assert body == {}
