"""The provider's verdicts are read from recorded replies, and judge our comparison of the same requests."""

from collections.abc import Mapping
from typing import Any

from mnemosyne.domain.session.address import Address
from mnemosyne.domain.wire.cache_verdict import Compared
from mnemosyne.services.cache_verdicts import Agreement, read_agreement, read_verdicts
from mnemosyne_lab.provider.diagnostics import MessagesDiagnostics
from tests.services.talking import talking
from tests.services.test_cache_misses import Client, misfortune, record

Json = Mapping[str, Any]


class OddDiagnostics(MessagesDiagnostics):
    """Answers from a list first, by message id."""

    def __init__(self, answers: Mapping[str, Json | None]) -> None:
        super().__init__()
        self._answers = answers

    def compare(self, body: Json, headers: Any, message_id: str) -> Any:
        """See MessagesDiagnostics."""
        found = super().compare(body, headers, message_id)
        return self._answers.get(message_id, found)


async def test_agreement_is_counted_over_all_requests_that_named_a_reply() -> None:
    async with talking() as talk:
        await record(talk, Client(), 10, misfortune)
        found = await read_agreement(talk.archive, [talk.stream])
        events, history = await talk.archive.events.read(talk.stream), await talk.history()
        (third,) = await read_verdicts(talk.archive, talk.stream, events, history, only=Address("main", 3, 1))
    assert found == Agreement(agreed=9, differing=[], inconclusive={})
    assert found.sentence == "The provider's verdict agrees for 9 of 9 requests (100.0 %)."
    assert (third.verdict.compared, third.verdict.named, third.agrees) == (Compared.TOOLS, "msg_2", True)
    assert third.sentence.startswith("The provider's verdict: the tools (tools_changed, ")


async def test_disagreements_are_listed_and_inconclusive_verdicts_are_counted_apart() -> None:
    answers: Mapping[str, Json | None] = {
        "msg_3": None,
        "msg_4": {"cache_miss_reason": None},
        "msg_5": {"cache_miss_reason": {"type": "previous_message_not_found"}},
        "msg_6": {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 10**9}},
        "msg_8": {"cache_miss_reason": {"type": "of_next_year"}},
    }
    async with talking() as talk:
        await record(talk, Client(provider=OddDiagnostics(answers)), 10, misfortune)
        found = await read_agreement(talk.archive, [talk.stream])
    assert [(each.address.turn, each.verdict.compared) for _, each in found.differing] == [
        (3, Compared.SAME),
        (6, Compared.SYSTEM),
    ]
    assert found.differing[0][1].sentence == "The provider's verdict: no difference; ours: tools."
    assert found.agreed == 4
    assert sum(found.inconclusive.values()) == 3
    assert "agrees for 4 of 6 requests (66.7 %). Inconclusive: " in found.sentence


class LaggingClient(Client):
    """Always names the first reply."""

    def body(self) -> bytes:
        """See Client."""
        return super().body().replace(b'"msg_2"', b'"msg_1"')


async def test_a_verdict_on_another_pair_of_requests_is_inconclusive() -> None:
    async with talking() as talk:
        await record(talk, LaggingClient(), 3, lambda _client, _turn: False)
        found = await read_agreement(talk.archive, [talk.stream])
        later = await read_agreement(talk.archive, [talk.stream], since=10**12)
    assert (found.agreed, found.inconclusive) == (1, {"another reply was named, or the change has several parts": 1})
    assert later.sentence == "No request has a conclusive verdict of its provider yet."
