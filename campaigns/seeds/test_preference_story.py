"""The story of a preference: the agent saves what its user says, later sessions know it, and it is corrected, asked for
as of an earlier day, confirmed, forgotten and restored. Nothing is overwritten.
"""

from pathlib import Path
from typing import Any

from campaigns.seeds.place import INSTRUCTIONS, Place, opened
from tests.http.managing import text
from tests.http.test_session_knowledge import blocks
from tests.scripted_helper import Json

FIFTY, FIFTY_FIVE = "The user wants to retire at 50", "The user wants to retire at 55"
FUNDS, WHY = "Suggest funds only, no single stocks", "They lost money with two stocks in 2019."
QUESTION = "When does the user want to retire?"


async def save(place: Place, content: str, kind: str, **more: Any) -> Json:
    """The agent saves a preference; the user said so."""
    given: Json = {"content": content, "kind": kind, **more}
    done: Json = await place.api("POST", "/preferences", given)
    return done


async def told(place: Place, session: str) -> str:
    """The notes that a new session gets."""
    await place.work(
        place.client(session, instructions=INSTRUCTIONS), "What shall I do with my savings?", [text("Let us see.")]
    )
    return "\n".join(blocks(place.sent[-1]))


async def active(place: Place, **query: str) -> list[str]:
    return [each["content"] for each in (await place.api("GET", "/preferences", **query))["entries"]]


async def test_preference_is_saved_updated_recalled_as_of_a_time_forgotten_and_restored(
    tmp_path: Path, dsn: str
) -> None:
    async with opened(tmp_path, dsn) as place:
        # The first chat: a statement counts at once, and for the chats that begin from now on.
        chat = place.client("first", instructions=INSTRUCTIONS)
        await place.work(chat, "I want to retire at 50, and only buy funds.", [text("I see.")])
        await place.until_owned()
        saved = await save(place, FIFTY, "profile", session="first", source="agent")
        funds = await save(place, FUNDS, "response-style", session="first", source="agent", detail=WHY)
        assert [saved["what"], funds["what"]] == ["added", "added"]
        assert sorted(await active(place)) == sorted([FIFTY, FUNDS])
        assert saved["entry"]["provenance"]["turn"] == 1
        await place.work(chat, "And now?", [text("Now too.")])
        assert blocks(place.sent[-1]) == [], "a running chat does not change"

        # The next chat begins with it. The longer detail is only recalled.
        second = await told(place, "second")
        assert FIFTY in second
        assert FUNDS in second
        assert WHY not in second
        (found,) = (await place.api("GET", "/recall", query="Why no single stocks?", limit="1"))["entries"]
        assert found["detail"] == WHY

        # The same again is no second entry.
        again = await save(place, FIFTY, "profile", source="agent")
        assert (again["what"], again["entry"]["id"]) == ("skipped", saved["entry"]["id"])

        # A correction ends one row and begins another; links follow.
        await place.api("POST", f"/memories/{funds['entry']['id']}/links", {"id": "", "other": saved["entry"]["id"]})
        changed = await place.api("PUT", f"/preferences/{saved['entry']['id']}", {"content": FIFTY_FIVE})
        new = changed["entry"]
        assert new["replaces"] == saved["entry"]["id"]
        rows = await place.rows(
            "select id, content, valid_until is null as active, replaces, replaced_by from persistent_objects"
            " where object_type = 'profile' order by created_at"
        )
        old = {"id": saved["entry"]["id"], "content": FIFTY, "active": False, "replaces": None}
        assert rows == [
            {**old, "replaced_by": new["id"]},
            {"id": new["id"], "content": FIFTY_FIVE, "active": True, "replaces": old["id"], "replaced_by": None},
        ]
        (linked,) = (each for each in (await place.api("GET", "/preferences"))["entries"] if each["content"] == FUNDS)
        assert [each["id"] for each in linked["links"]] == [new["id"]]
        third = await told(place, "third")
        assert FIFTY_FIVE in third
        assert FIFTY not in third

        # As of the time before the correction, the old one is true.
        assert sorted(await active(place, as_of=str(new["recorded_at"] - 1))) == sorted([FIFTY, FUNDS])
        assert sorted(await active(place)) == sorted([FIFTY_FIVE, FUNDS])

        # The user says it again: it is confirmed, not copied.
        confirmed = await place.api("POST", f"/preferences/{new['id']}/confirm", {})
        assert confirmed["entry"]["confirmed_at"] >= new["recorded_at"]
        assert sorted(await active(place)) == sorted([FIFTY_FIVE, FUNDS])

        # Forgotten, no chat gets it; the record keeps it.
        forgotten = await place.api("DELETE", f"/preferences/{new['id']}")
        assert forgotten["what"] == "forgotten"
        assert await active(place) == [FUNDS]
        assert "retire" not in await told(place, "fourth")
        history = (await place.api("GET", f"/memories/{new['id']}"))["entries"]
        assert [each["content"] for each in history] == [FIFTY, FIFTY_FIVE]
        assert (await place.api("GET", "/recall", query=QUESTION))["entries"] == []
        assert (await place.api("GET", "/recall", query=QUESTION, ended="true"))["entries"] != []

        # Restored, it is there again with its history.
        await place.api("POST", "/undo", {"write": forgotten["write"]})
        assert sorted(await active(place)) == sorted([FIFTY_FIVE, FUNDS])
        assert FIFTY_FIVE in await told(place, "fifth")
        await place.work(place.clients[1], "And with the rest?", [text("The same.")])
        assert "\n".join(blocks(place.sent[-1])) == second, "the second chat knows what it was told"
