"""The contract of helper models of all kinds over real sockets: their requests, and HelperFailed for every fault."""

import json
from functools import partial

import attrs
import pytest
import trio

from mnemosyne.adapters.helpers.endpoint import IMAGE_REFUSALS, LARGEST_ANSWER
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.helper.model import HelperFailed
from tests.adapters.helpers.asking import (
    CLIENT_KEYS,
    IMAGE,
    KINDS,
    PROMPT,
    failure,
    model_of,
    open_both,
    open_model,
    settings,
)
from tests.scripted_helper import USED, Answer, Json, open_endpoint, says

pytestmark = pytest.mark.parametrize("kind", KINDS)


def _say(text: str, end: str | None, path: str, _: Json) -> Answer:
    return says(path, text, end)


WITH_IMAGE = attrs.evolve(PROMPT, images=(IMAGE,))


async def test_a_helper_is_sent_the_schema_and_reports_its_usage(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-of-a-login")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with open_both(kind, lambda path, _: says(path, "the answer")) as (endpoint, model):
        completion = await model.complete(PROMPT)
        assert model.name == f"{kind.partition('/')[0]}:{model_of(kind)}"
    assert (completion.text, completion.used) == ("the answer", Tokens(input=USED[0], output=USED[1]))
    [(path, headers, body)] = endpoint.requests
    assert path == ("/v1/messages" if kind in ("anthropic", "client/messages") else "/v1/chat/completions")
    assert body["model"] == model_of(kind)
    assert body["max_tokens"] == PROMPT.most_tokens
    assert json.dumps(PROMPT.schema) in json.dumps(body)
    keys = {each for each in str(headers).replace("'", " ").split() if each.startswith("sk-")}
    expected = {"anthropic": "sk-ours", **{name: held.key for name, held in CLIENT_KEYS.items()}}.get(kind)
    assert keys == ({expected} if expected else set())


@pytest.mark.parametrize("status", [400, 500])
async def test_images_are_sent_and_a_refusal_of_them_is_remembered_for_images_only(kind: str, status: int) -> None:
    def answer(path: str, body: Json) -> Answer:
        return (status, b"{}") if IMAGE.base64 in json.dumps(body) else says(path, "text only")

    async with open_both(kind, answer) as (endpoint, model):
        assert (await model.complete(PROMPT)).text == "text only"
        for _ in range(IMAGE_REFUSALS + 1):
            with pytest.raises(HelperFailed) as raised:
                await model.complete(WITH_IMAGE)
            assert (raised.value.again, raised.value.by_images) == (False, True)
        assert (await model.complete(PROMPT)).text == "text only"
        assert len(endpoint.requests) == IMAGE_REFUSALS + 2
        endpoint.answer = lambda path, _: says(path, "a picture")
        with pytest.raises(HelperFailed, match="does not accept images"):
            await model.complete(WITH_IMAGE)


async def test_a_broken_image_does_not_end_images(kind: str) -> None:
    def answer(path: str, body: Json) -> Answer:
        return (400, b"{}") if "YnJva2Vu" in json.dumps(body) else says(path, "a picture")

    broken = attrs.evolve(PROMPT, images=(attrs.evolve(IMAGE, base64="YnJva2Vu"),))
    async with open_both(kind, answer) as (_, model):
        assert (await model.complete(WITH_IMAGE)).text == "a picture"
        for _ in range(IMAGE_REFUSALS):
            with pytest.raises(HelperFailed):
                await model.complete(broken)
            assert (await model.complete(WITH_IMAGE)).text == "a picture"


async def test_an_unreachable_helper_costs_nothing_and_may_be_retried(kind: str) -> None:
    async with open_endpoint(lambda *_: None) as endpoint:
        gone = endpoint.url
    async with open_model(settings(kind, gone), kind) as model:
        with pytest.raises(HelperFailed, match="no connection") as raised:
            await model.complete(PROMPT)
        with pytest.raises(HelperFailed):
            await model.check()
    assert raised.value.again
    assert not raised.value.billed


@pytest.mark.parametrize(
    ("status", "again"), [(401, False), (403, False), (404, False), (429, True), (500, True), (529, True)]
)
async def test_the_status_of_an_error_decides_about_a_retry(kind: str, status: int, again: bool) -> None:
    error = await failure(kind, lambda *_: (status, b'{"error": {"message": "you sent: SECRET"}}'))
    assert (error.again, error.billed, error.is_refusal) == (again, False, status in (401, 403))
    assert str(status) in str(error)
    assert "SECRET" not in str(error)


@pytest.mark.parametrize(("stated", "pause"), [("7", 7.0), ("Fri, 27 Nov 2026 20:00:00 GMT", 0.0), ("-3", 0.0)])
async def test_a_busy_endpoint_names_the_pause(kind: str, stated: str, pause: float) -> None:
    async with open_both(kind, lambda *_: (429, b"{}")) as (endpoint, model):
        endpoint.headers["Retry-After"] = stated
        with pytest.raises(HelperFailed) as raised:
            await model.complete(PROMPT)
        assert (raised.value.again, raised.value.pause) == (True, pause)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"null", b"{}", b'{"choices": []}', b'{"choices": [1], "content": 3}', b"[" * 9000]
)
async def test_an_invalid_answer_may_have_been_billed(kind: str, body: bytes) -> None:
    error = await failure(kind, lambda *_: (200, body))
    assert error.billed
    assert not error.again


# httpcore2 leaves its own generator to the garbage collector where a reply is not read to its end.
@pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning")
async def test_an_answer_of_many_megabytes_is_not_read(kind: str) -> None:
    error = await failure(kind, lambda path, _: says(path, "x" * (LARGEST_ANSWER + 1_000_000)))
    assert error.billed
    assert "longer" in str(error)


async def test_an_incomplete_answer_is_a_failure_that_is_not_retried(kind: str) -> None:
    is_messages = kind in ("anthropic", "client/messages")
    for end in ("max_tokens", "refusal") if is_messages else ("length", "content_filter"):
        error = await failure(kind, partial(_say, '{"summary": "It', end))
        assert (error.again, error.billed) == (False, True)


async def test_any_other_text_is_returned_as_it_is(kind: str) -> None:
    for text in ("{broken", "Αυτό είναι κείμενο. 这是文字。", "x" * 100_000, '{"summary": "\\ud83d"}'):
        async with open_both(kind, partial(_say, text, None)) as (_, model):
            assert (await model.complete(PROMPT)).text == text


async def test_half_a_surrogate_is_replaced(kind: str) -> None:
    async with open_both(kind, lambda path, _: says(path, "a\ud83db")) as (_, model):
        assert (await model.complete(PROMPT)).text == "a?b"


async def test_a_truncated_reply_may_have_been_billed(kind: str) -> None:
    error = await failure(kind, lambda *_: None)
    assert error.billed
    assert error.again


async def test_a_slow_call_can_be_cancelled(kind: str) -> None:
    async with open_both(kind, lambda *_: None) as (endpoint, model):
        endpoint.slow = True
        with trio.move_on_after(0.05) as scope:
            await model.complete(PROMPT)
    assert scope.cancelled_caught


async def test_a_check_is_free(kind: str) -> None:
    listed = json.dumps({"id": model_of(kind), "data": [{"id": model_of(kind)}]}).encode()
    async with open_both(kind, lambda *_: (200, listed)) as (endpoint, model):
        await model.check()
    [(path, _, body)] = endpoint.requests
    assert path.startswith("/v1/models")
    assert body == {}
