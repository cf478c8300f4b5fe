"""Helper models over real sockets: what they are sent, and that whatever they do wrong is a HelperFailed."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from mnemosyne.adapters.helpers.openai import LARGEST_ANSWER
from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.config import Config, load
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.summaries.helper_model import FREE, HelperFailed, HelperModel
from mnemosyne.domain.summaries.renditions import ANSWER_SCHEMA
from mnemosyne.errors import BadConfiguration
from tests.adapters.endpoint import USED, Answer, Endpoint, Json, open_endpoint, says

HELPERS = ("anthropic", "openai")
ENVIRON = {"ANTHROPIC_API_KEY": "sk-ours", "OTHER_KEY": "sk-other"}

pytestmark = pytest.mark.parametrize("helper", HELPERS)


def settings(helper: str, url: str, **options: str) -> Config:
    base = url if helper == "anthropic" else f"{url}/v1"
    return load(
        {"helper": helper, "helper_url": base, "helper_model": "claude-haiku-5-5", "data_dir": "/nowhere", **options},
        {},
    )


@asynccontextmanager
async def open_both(
    helper: str, answer: Callable[[str, Json], Answer], **options: str
) -> AsyncIterator[tuple[Endpoint, HelperModel]]:
    async with (
        open_endpoint(answer) as endpoint,
        open_helper(settings(helper, endpoint.url, **options), ENVIRON) as model,
    ):
        assert model is not None
        yield endpoint, model


async def failure(helper: str, answer: Callable[[str, Json], Answer]) -> HelperFailed:
    async with open_both(helper, answer) as (_, model):
        with pytest.raises(HelperFailed) as raised:
            await model.complete("s", "u", 10)
    return raised.value


async def test_a_helper_is_asked_for_our_schema_and_says_what_it_used(
    helper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-the-clients")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with open_both(helper, lambda path, _: says(path, "the answer")) as (endpoint, model):
        completion = await model.complete("the system prompt", "the question", 123)
    assert (completion.text, completion.used) == ("the answer", Tokens(input=USED[0], output=USED[1]))
    [(path, headers, body)] = endpoint.requests
    assert path == ("/v1/messages" if helper == "anthropic" else "/v1/chat/completions")
    assert body["model"] == "claude-haiku-5-5"
    assert body["max_tokens"] == 123
    assert json.dumps(ANSWER_SCHEMA) in json.dumps(body)
    assert "sk-the-clients" not in str(headers)
    assert ("sk-ours" in str(headers)) == (helper == "anthropic")


async def test_the_key_may_be_under_another_name_and_must_be_there(helper: str) -> None:
    async with open_both(helper, lambda path, _: says(path, "x"), helper_key_variable="OTHER_KEY") as (endpoint, model):
        await model.complete("s", "u", 10)
        assert "sk-other" in str(endpoint.requests[0][1])
    missing = settings(helper, "http://127.0.0.1:9", helper_key_variable="NO_KEY")
    with pytest.raises(BadConfiguration, match="NO_KEY is not set"):
        async with open_helper(missing, ENVIRON):
            pass


async def test_prices_are_the_list_s_or_the_settings_and_never_a_guess(helper: str) -> None:
    async with open_helper(settings(helper, "http://127.0.0.1:9"), ENVIRON) as model:
        assert model is not None
        assert model.price == (in_force().prices["claude-haiku-5-5"] if helper == "anthropic" else FREE)
    async with open_helper(settings(helper, "https://h.example", helper_price="0.25/1.5"), ENVIRON) as model:
        assert model is not None
        assert model.price == Price(250, 1_500, read=250)
    with pytest.raises(BadConfiguration, match="helper_price"):
        async with open_helper(settings(helper, "https://h.example", helper_model="unheard-of"), ENVIRON):
            pass


async def test_one_that_is_down_costs_nothing_and_may_be_tried_again(helper: str) -> None:
    async with open_endpoint(lambda *_: None) as endpoint:
        gone = endpoint.url
    async with open_helper(settings(helper, gone), ENVIRON) as model:
        assert model is not None
        with pytest.raises(HelperFailed, match="no connection") as raised:
            await model.complete("s", "u", 10)
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
            await model.complete("s", "u", 10)
    assert scope.cancelled_caught


async def test_a_check_asks_for_nothing_that_costs(helper: str) -> None:
    listed = json.dumps({"id": "claude-haiku-5-5", "data": [{"id": "claude-haiku-5-5"}]}).encode()
    async with open_both(helper, lambda *_: (200, listed)) as (endpoint, model):
        await model.check()
    [(path, _, body)] = endpoint.requests
    assert path.startswith("/v1/models")
    assert body == {}


async def test_an_endpoint_that_knows_no_schemas_is_asked_without_one(helper: str) -> None:
    if helper != "openai":
        pytest.skip("the Messages API knows them")

    def answer(path: str, body: Json) -> Answer:
        return (400, b"{}") if "response_format" in body else says(path, "plain")

    async with open_both(helper, answer) as (endpoint, model):
        assert (await model.complete("s", "u", 10)).text == "plain"
        assert (await model.complete("s", "u", 10)).text == "plain"
    assert ["response_format" in body for _, _, body in endpoint.requests] == [True, False, False]


# httpcore2 leaves its own generator to the garbage collector where a reply is not read to its end.
@pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning")
async def test_an_answer_without_end_is_cut(helper: str) -> None:
    if helper != "openai":
        pytest.skip("the SDK reads the provider's answers")
    error = await failure(helper, lambda *_: (200, b" " * (LARGEST_ANSWER + 1)))
    assert error.billed
