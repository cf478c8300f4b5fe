"""No text stops the proxy: endless lines in a tool result are shortened, and the next request is answered."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.summaries.extractive import summarize
from mnemosyne.domain.summaries.renditions import RenditionRequest
from tests.http.managing import Json, bare_stage, results, text
from tests.http.test_epochs import answer, client_of, read, run, violations

LENGTH = 60_000
"""Characters of a line."""

SECONDS = 12
"""Of processor time: ten times what a conversation takes. A pattern that takes the square needs more for one line."""

LINES = [
    "deadbeef0123456789" * (LENGTH // 18),
    "QUJDRGVmZ2hpSktMbW5vcA" * (LENGTH // 22),
    "var a=1;function f(b){return b+1};" * (LENGTH // 34),
    '{"id":1,"error":[2,3]},' * (LENGTH // 23),
    "x" + " " * LENGTH + "y",
    "\t" * LENGTH + "y",
    "7" * LENGTH,
    "/usr/lib" * (LENGTH // 8) + " x",
    "||||" * (LENGTH // 4) + " x x",
    "世界" * (LENGTH // 2),
    "a" + "\u0301\u0316" * (LENGTH // 2),
    "export const a " * (LENGTH // 15),
]


def between(ordinary: str) -> str:
    """The endless lines, each before twenty ordinary ones."""
    few = "".join(f"{ordinary.format(number)}\n" for number in range(20))
    return few + "".join(f"{line}\n{few}" for line in LINES)


def numbered(content: str) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(content.split("\n"), 1))


WAYS: dict[str, tuple[Json, str]] = {
    "code": (read("/src/part.py"), numbered(between("def handler_{0}(request): return answer_{0}"))),
    "data": (read("/src/part.json"), numbered(between('  "key_{0}": "value_{0}",'))),
    "prose": (read("/src/part.md"), between("We always chose jwt_cookie_{0} because it must work.")),
    "diff": (run("git diff"), "diff --git a/src/m.py b/src/m.py\n@@ -1,4 +1,5 @@\n" + between("+    new_{0}")),
    "log": (run("make test"), between("2026-01-02 10:00:00 INFO worker started job {0}")),
    "listing": (run("find src"), between("src/module_{0}/part_{0}.ts")),
}


@pytest.fixture(autouse=True)
def _processor_time() -> Iterator[None]:
    """Stops a test that keeps the processor busy."""

    def stop(*_: object) -> None:
        raise TimeoutError("the processor is kept busy")

    before: Any = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("way", [pytest.param(way, marks=[] if way == "log" else pytest.mark.soak) for way in WAYS])
async def test_after_endless_lines_the_next_request_is_answered(way: str) -> None:
    call, content = WAYS[way]
    of = {"kind": ObjectKind.TOOL_RESULT, "source_tool": call["name"], "source_key": call["input"].get("file_path")}
    assert summarize(RenditionRequest(**of, text=content, target_chars=4_000)).text
    async with bare_stage() as stage:
        client = client_of(stage)
        answer(stage, [call])
        asked = await client.turn(text("What is in it?"))
        answer(stage, [text("I see.")])
        for said in ([{**each, "content": content} for each in results(asked)], [text("And what else?")]):
            assert (await client.turn(*said))["content"] == [text("I see.")]
        assert violations(stage) == []
