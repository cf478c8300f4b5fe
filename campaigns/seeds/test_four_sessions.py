"""The story of four sessions: the first plans and decides, the second continues, the third completes the plan, and the
fourth, with another task, knows the decision and its place.

The document also wants the third to turn its calls into a skill; that is declined by measurement (ADR 33), and a person
saves the procedure.
"""

from pathlib import Path
from typing import Any

from campaigns.seeds.place import INSTRUCTIONS, Place, opened
from tests.http.managing import text, think
from tests.http.test_session_knowledge import blocks
from tests.scripted_helper import Json

STEPS = ("Make the tables", "Write the login", "Test the login")
DATABASE = "we use PostgreSQL for the database."
TOKENS = "We use JWT, as the API has no server state"
PROCEDURE = "To review code, run the tests first, then read the diff"
ANSWER = f'Your questions were answered: "JWT or sessions?"="{TOKENS}".'
QUESTION = {"type": "tool_use", "name": "AskUserQuestion", "input": {"questions": [{"question": "JWT or sessions?"}]}}


def plan(done: int) -> Json:
    """The agent writes its list, of which so many steps are done."""
    todos = [
        {"content": each, "status": "completed" if number < done else "pending", "activeForm": each}
        for number, each in enumerate(STEPS)
    ]
    return {"type": "tool_use", "name": "TodoWrite", "input": {"todos": todos}}


async def begin(place: Place, session: str, prompt: str, *calls: Json) -> str:
    """A new session with its first prompt; return the notes that it got."""
    client, first = place.client(session, instructions=INSTRUCTIONS), len(place.sent)
    replies = [*([think(), call] for call in calls), [think(), text("Done.")]]
    await place.work(client, prompt, *replies, output=_output)
    return "\n".join(blocks(place.sent[first]))


def _output(call: Json) -> str:
    return ANSWER if call["name"] == "AskUserQuestion" else "Todos have been modified."


def still_open(stats: Any) -> list[str]:
    """The steps of a session's plan that are not done."""
    return [each["text"] for each in stats["plan"]["items"] if each["state"] != "done"]


async def test_four_sessions_share_plan_and_decisions_and_each_decision_leads_to_its_source(
    tmp_path: Path, dsn: str
) -> None:
    async with opened(tmp_path, dsn) as place, place.tools() as call:
        project = ("--project", str(place.project))

        # The first session makes a plan, and its user decides for a database.
        assert await begin(place, "first", f"Remember that {DATABASE}", plan(1)) == ""
        await place.until_owned()
        (decided,) = (await call("list_known"))["entries"]
        assert (decided["content"], decided["confirmed"]) == (DATABASE, False)
        assert "confirmed" in await place.told("memory", "confirm", decided["id"], *project)

        # The second knows the decision and how far the plan is, continues it and decides more.
        notes = await begin(place, "second", "Create the tables in the PostgreSQL database we use.", QUESTION, plan(2))
        assert DATABASE in notes
        assert still_open(await call("memory_stats", session="first")) == [*STEPS[1:]]
        assert still_open(await call("memory_stats")) == [STEPS[2]], "the last session of this project"
        saved = await call("remember", text=TOKENS, kind="decision", session="second")
        assert (saved["what"], saved["entry"]["source"]) == ("added", "agent")

        # The third completes the plan; what worked is kept as a procedure.
        await begin(place, "third", "Test the login.", plan(3))
        done = await call("memory_stats")
        assert (done["plan"]["progress"], still_open(done)) == ("3 of 3", [])
        await place.told("remember", PROCEDURE, "--kind", "procedure", *project)

        # The fourth has another task. It begins with what its prompt is about, and asks for the rest.
        notes = await begin(place, "fourth", "Review code: read the diff, run the tests in the PostgreSQL database.")
        assert DATABASE in notes
        assert PROCEDURE in notes
        (found, *_) = (await call("recall", question="Do we use JWT?"))["entries"]
        assert found["content"] == TOKENS
        (object_, *_) = (await call("memory_search", query="JWT or sessions?", all_sessions=True))["results"]
        assert object_["kind"] == "design_decision"
        whole = await call("memory_restore", session=object_["session"], object=object_["object"])
        assert TOKENS in whole["text"]

        # Each decision leads back to the conversation in which it was made.
        rows = await place.rows(
            "select p.content, p.source_turn, s.external_id from persistent_objects p"
            " join sessions s on s.id = p.source_session_id order by p.created_at"
        )
        assert rows == [
            {"content": DATABASE, "source_turn": 1, "external_id": "first"},
            {"content": TOKENS, "source_turn": 3, "external_id": "second"},
        ]
        assert DATABASE in await place.told("context", "first", "--turn", "1", "--raw")
