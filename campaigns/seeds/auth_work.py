"""A session about authentication, as the documents tell it: the agent reads the middleware, decides for JWT, sees a
test fail and writes a plan; other work fills the window; then the model needs evicted text.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from campaigns.seeds.place import SMALL, Output, Place, opened
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.window.ages import AGES
from tests.actors.summaries import long_text
from tests.http.managing import recall, restore, text, think
from tests.http.test_epochs import edit, read, run
from tests.scripted_helper import Json, Label

SESSION = "auth"
MIDDLEWARE, TESTS, MIGRATION, SEED = (
    "/src/auth/middleware.ts",
    "/src/auth/middleware.test.ts",
    "/src/db/migrate.ts",
    "/src/db/seed.ts",
)
EXPIRED = 'throw new AuthError(401, "TOKEN_EXPIRED");  // an expired token'
QUESTION = "What error code does the auth middleware return for expired tokens?"
ANSWER = 'The auth middleware answers an expired token with 401 and "TOKEN_EXPIRED".'
EXPLAINED = long_text("auth")
SUMMARY = "\n".join(EXPLAINED.splitlines()[:19])
LOSSES: Json = {
    "dropped": ["the later error messages"],
    "can_answer": ["where the auth parser fails"],
    "fault_when": ["you need the later timings"],
    "key_entities": ["auth.toml"],
}
LABELS = (Label("answer", EXPIRED, members={"text": ANSWER}), Label("summarize", SUMMARY, members=LOSSES))

DECIDED = 'Your questions were answered: "JWT or sessions?"="JWT, as the API has no server state".'
ASKED = {"type": "tool_use", "name": "AskUserQuestion", "input": {"questions": [{"question": "JWT or sessions?"}]}}
FAILED = f"FAIL {TESTS}\n  TypeError: token is undefined at {MIDDLEWARE}:42\n1 failed"
STEPS = [{"content": each, "status": "pending", "activeForm": each} for each in ("Fix the middleware", "Test it")]
PLANNED = {"type": "tool_use", "name": "TodoWrite", "input": {"todos": STEPS}}
DONE = [think(), text("Done.")]


def client_tools() -> Output:
    """The client's tools, on files that change when they are edited."""
    edited: list[str] = []

    def output(call: Json) -> Any:
        given, name = call["input"], call["name"]
        path = given.get("file_path", "")
        match name:
            case "Read":
                return "\n".join(_source(path, edited.count(path)))
            case "Edit":
                edited.append(path)
                return f"The file {path} has been updated."
            case "Bash":
                return FAILED
            case "AskUserQuestion":
                return DECIDED
            case _:
                return "Todos have been modified."

    return output


def _source(path: str, version: int) -> Iterator[str]:
    lines = 700 if path in (MIGRATION, SEED) else 120
    for number in range(1, lines + 1):
        is_it = path == MIDDLEWARE and number == lines // 2
        yield f"{number:6}\t" + (f"  {EXPIRED}" if is_it else f"const rule_{number} = checks[{number * 7 + version}];")


@attrs.define
class Seen:
    """The observations while the session was played: the requests to the provider and the helper, and the tables."""

    place: Place
    sent: dict[str, Json] = attrs.field(factory=dict)
    objects: dict[str, dict[str, dict[str, Any]]] = attrs.field(factory=dict)

    async def take(self, step: str) -> None:
        self.sent[step] = self.place.sent[-1]
        self.objects[step] = {each["id"]: each for each in await self.place.rows("select * from semantic_objects")}

    def find(self, step: str, **wanted: Any) -> dict[str, Any]:
        """The newest object with these values."""
        found = [each for each in self.objects[step].values() if wanted.items() <= each.items()]
        return max(found, key=lambda each: each["created_at"])

    def result(self, step: str) -> str:
        """The result of the memory tool that the model called in this step."""
        blocks = self.sent[step]["messages"][-1]["content"]
        (content,) = (block["content"] for block in blocks if block["type"] == "tool_result")
        return content if isinstance(content, str) else str(content[0]["text"])


async def play(tmp_path: Path, dsn: str) -> Seen:
    async with opened(tmp_path, dsn, *LABELS, options=SMALL) as place:
        seen, client, output = Seen(place), place.client(SESSION), client_tools()

        async def work(prompt: str, *replies: Sequence[Json]) -> None:
            await place.work(client, prompt, *replies, output=output)

        await work("Read the auth middleware.", [think(), read(MIDDLEWARE)], DONE)
        await work("Which one do we take?", [think(), ASKED], DONE)
        await work("Run the tests.", [think(), run("npm test")], DONE)
        await work("Plan the fix.", [think(), PLANNED], DONE)
        await seen.take("read")
        await work("Read the migrations.", [think(), read(MIGRATION)], [think(), read(SEED)], DONE)
        await seen.take("full")
        await work("Explain the parser.", [think(), text(EXPLAINED)])
        for number in range(AGES.said.turns + 1):
            await work(f"Step {number}.", [text(f"Step {number} is done.")])
        await place.home.until_recorded(SESSION, ObjectSummarized)
        await work("Read the migrations again.", [think(), read(MIGRATION)], DONE)
        await seen.take("shortened")
        await work("What did it return?", [recall(QUESTION)], [text("TOKEN_EXPIRED.")])
        await seen.take("asked")
        await work("Where did it fail?", [_search("npm test", kind="error_context")], [text("There.")])
        await seen.take("searched")
        middleware = seen.find("asked", source_key=MIDDLEWARE)["id"]
        await work("Fix it.", [restore(middleware)], [think(), edit(MIDDLEWARE)], [think(), read(MIDDLEWARE)], DONE)
        await seen.take("restored")
        migration = seen.find("restored", source_key=MIGRATION)["id"]
        await work("That is done.", [_release(migration)], [text("Yes.")])
        await seen.take("released")
        await work("Read the seed again.", [think(), read(SEED)], DONE)
        await work("And on.", [text("Yes.")])
        await seen.take("ended")
    return seen


def _search(words: str, **given: Any) -> Json:
    return {"type": "tool_use", "name": "memory_search", "input": {"query": words, **given}}


def _release(*objects: str) -> Json:
    return {"type": "tool_use", "name": "memory_release", "input": {"object_ids": [*objects], "reason": "done"}}
