"""A helper with the Chat Completions API adapts to the differences between endpoints."""

import json

import attrs
import pytest

from mnemosyne.domain.helper.model import HelperFailed
from tests.adapters.helpers.asking import IMAGE, PROMPT, failure, open_both
from tests.scripted_helper import Answer, Json, says

FORMS = ["temperature json_schema", "reasoning_effort json_schema", "temperature json_object", "temperature"]
"""The forms of a request in the order of attempts."""


def form_of(body: Json) -> str:
    names = [name for name in ("reasoning_effort", "temperature") if name in body]
    return " ".join([*names, *([body["response_format"]["type"]] if "response_format" in body else [])])


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("accepted", range(len(FORMS)))
async def test_the_first_form_that_an_endpoint_accepts_is_used_from_then_on(accepted: int, status: int) -> None:
    def answer(path: str, body: Json) -> Answer:
        return says(path, "plain") if form_of(body) == FORMS[accepted] else (status, b"{}")

    async with open_both("openai", answer) as (endpoint, model):
        for _ in range(2):
            assert (await model.complete(PROMPT)).text == "plain"
    assert [form_of(body) for _, _, body in endpoint.requests] == [*FORMS[: accepted + 1], FORMS[accepted]]


async def test_a_refusal_of_every_form_is_a_failure_each_time() -> None:
    async with open_both("openai", lambda *_: (400, b"{}")) as (endpoint, model):
        for _ in range(2):
            with pytest.raises(HelperFailed, match="status 400"):
                await model.complete(PROMPT)
    assert [form_of(body) for _, _, body in endpoint.requests] == FORMS * 2


async def test_an_image_is_a_data_url_beside_the_text() -> None:
    async with open_both("openai", lambda path, _: says(path, "a picture")) as (endpoint, model):
        await model.complete(attrs.evolve(PROMPT, images=(IMAGE,)))
    content = endpoint.requests[0][2]["messages"][1]["content"]
    assert content == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE.base64}"}},
        {"type": "text", "text": PROMPT.user},
    ]


async def test_a_refusal_in_words_is_a_failure() -> None:
    message = {"content": None, "refusal": "I cannot help with that."}
    error = await failure("openai", lambda *_: (200, json.dumps({"choices": [{"message": message}]}).encode()))
    assert "refuses to answer" in str(error)
    assert not error.again


@pytest.mark.parametrize("usage", [None, 3, {}, {"prompt_tokens": "many"}])
async def test_an_answer_without_usage_is_accepted(usage: object) -> None:
    answer = json.dumps({"choices": [{"message": {"content": "short"}}], "usage": usage}).encode()
    async with open_both("openai", lambda *_: (200, answer)) as (_, model):
        assert (await model.complete(PROMPT)).text == "short"


async def test_a_model_missing_from_the_list_is_reported() -> None:
    for listed, is_there in (([], True), ([{"id": "other"}], False)):
        async with open_both("openai", lambda *_, data=listed: (200, json.dumps({"data": data}).encode())) as (
            _,
            model,
        ):
            if is_there:
                await model.check()
            else:
                with pytest.raises(HelperFailed, match="it lists other, but not the model claude-haiku-5-5"):
                    await model.check()
