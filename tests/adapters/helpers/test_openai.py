"""A helper with the Chat Completions API adapts to the differences between endpoints."""

import json

import pytest

from mnemosyne.adapters.helpers.openai import LARGEST_ANSWER
from mnemosyne.domain.helper.model import HelperFailed
from tests.adapters.endpoint import Answer, Json, says
from tests.adapters.helpers.asking import PROMPT, failure, open_both


async def test_an_endpoint_without_schemas_is_asked_without_one() -> None:
    def answer(path: str, body: Json) -> Answer:
        return (400, b"{}") if "response_format" in body else says(path, "plain")

    async with open_both("openai", answer) as (endpoint, model):
        assert (await model.complete(PROMPT)).text == "plain"
        assert (await model.complete(PROMPT)).text == "plain"
    assert ["response_format" in body for _, _, body in endpoint.requests] == [True, False, False]


# httpcore2 leaves its own generator to the garbage collector where a reply is not read to its end.
@pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning")
async def test_an_endless_answer_is_cut() -> None:
    error = await failure("openai", lambda *_: (200, b" " * (LARGEST_ANSWER + 1)))
    assert error.billed


async def test_another_refusal_is_retried_once_without_the_schema() -> None:
    async with open_both("openai", lambda *_: (400, b"{}")) as (endpoint, model):
        for _ in range(2):
            with pytest.raises(HelperFailed, match="status 400"):
                await model.complete(PROMPT)
    assert ["response_format" in body for _, _, body in endpoint.requests] == [True, False] * 2


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
                with pytest.raises(HelperFailed, match="does not list the model claude-haiku-5-5"):
                    await model.check()
