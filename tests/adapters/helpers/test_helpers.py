"""Helper models over real sockets: what they are sent, and that whatever they do wrong is a HelperFailed."""

import json

import pytest
import trio

from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.summaries.helper_model import HelperFailed
from tests.adapters.endpoint import USED, open_endpoint, says
from tests.adapters.helpers.asking import ENVIRON, HELPERS, PROMPT, failure, open_both, settings

pytestmark = pytest.mark.parametrize("helper", HELPERS)


async def test_a_helper_is_asked_for_the_schema_and_says_what_it_used(
    helper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_one_that_is_down_costs_nothing_and_may_be_tried_again(helper: str) -> None:
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
async def test_an_error_s_status_says_whether_trying_again_helps_and_its_text_is_not_repeated(
    helper: str, status: int, again: bool
) -> None:
    error = await failure(helper, lambda *_: (status, b'{"error": {"message": "you sent: SECRET"}}'))
    assert (error.again, error.billed) == (again, False)
    assert str(status) in str(error)
    assert "SECRET" not in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"null", b"{}", b'{"choices": []}', b'{"choices": [1], "content": 3}', b"[" * 9000]
)
async def test_garbage_with_status_200_may_have_been_billed(helper: str, body: bytes) -> None:
    assert (await failure(helper, lambda *_: (200, body))).billed


async def test_a_reply_that_breaks_off_may_have_been_billed(helper: str) -> None:
    error = await failure(helper, lambda *_: None)
    assert error.billed
    assert error.again


async def test_a_slow_one_can_be_left_at_any_time(helper: str) -> None:
    async with open_both(helper, lambda *_: None) as (endpoint, model):
        endpoint.slow = True
        with trio.move_on_after(0.05) as scope:
            await model.complete(PROMPT)
    assert scope.cancelled_caught


async def test_a_check_asks_for_nothing_that_costs(helper: str) -> None:
    listed = json.dumps({"id": "claude-haiku-5-5", "data": [{"id": "claude-haiku-5-5"}]}).encode()
    async with open_both(helper, lambda *_: (200, listed)) as (endpoint, model):
        await model.check()
    [(path, _, body)] = endpoint.requests
    assert path.startswith("/v1/models")
    assert body == {}
