r"""Draw the turns of ``ten_hours.txt`` from recorded sessions: ``python -m campaigns.clients.draw_steps 50 FILE...``.

FILE is what ``mnemosyne evaluate`` reads. Whole sessions are taken in an order drawn with the seed, so that their order
of reads, edits and commands stays. An edit needs the text that it replaced; a read needs one line, drawn from those
that it showed. The need is the newest step before that showed this text of a file. A read of text that no step showed
is a new one. What only commands showed counts as new.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from mnemosyne_lab.evaluation.demand import SHORTEST_EXACT, plain, texts_of
from mnemosyne_lab.evaluation.reading import read
from mnemosyne_lab.evaluation.trace import Trace

TURNS = 2_600
MOST = 12_000
"""Characters of a result; less than any client cuts off."""

HEAD = """\
# From recorded sessions, in their order. r: read a new file; n: the first lines of one; p4:90 more lines of the file of
# 4 turns ago; t: run something (characters of each result); u, e: use, edit a line that the turn so many ago showed
"""


def draw(sessions: list[Trace], chance: random.Random) -> Iterator[str]:
    chance.shuffle(sessions)
    for session in sessions:
        yield from _steps(session, chance)


def _steps(session: Trace, chance: random.Random) -> Iterator[str]:
    calls = {}
    shown: list[tuple[str, str]] = []
    """For each step its file, or nothing, and what it showed of it."""
    for message in session.messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                call = calls[block["tool_use_id"]]
                text = plain("\n".join(texts_of([{"content": [block]}])))
                step, file = _step(call["name"], call["input"], text, shown, chance)
                yield step
                shown.append((file, "\n".join((text, *texts_of([{"content": [call]}]))) if file else ""))


def _step(
    tool: str, arguments: dict[str, object], text: str, shown: list[tuple[str, str]], chance: random.Random
) -> tuple[str, str]:
    file, size = str(arguments.get("file_path", "")), min(len(text), MOST)
    lines = [line for line in text.splitlines() if len(line.strip()) >= SHORTEST_EXACT]
    if tool == "Edit":
        old = str(arguments["old_string"])
        if ago := _ago(shown, old) or _ago(shown, max(old.splitlines(), key=len, default="")):
            return f"e{ago}", file
    elif tool == "Write":
        return f"r{min(len(str(arguments['content'])), MOST)}", file
    elif tool == "Read" and lines:
        if ago := _ago(shown, chance.choice(lines)):
            return f"u{ago}", file
        known = next((number for number, (name, _) in enumerate(reversed(shown), 1) if name == file), 0)
        return f"p{known}:{size}" if known else f"{'n' if 'limit' in arguments else 'r'}{size}", file
    return f"t{size}", ""


def _ago(shown: list[tuple[str, str]], text: str) -> int:
    """How many steps ago a file's text was shown; 0 if never."""
    if len(text.strip()) < SHORTEST_EXACT:
        return 0
    return next((number for number, (_, each) in enumerate(reversed(shown), 1) if text in each), 0)


def main(seed: str, *files: str) -> None:
    found = [each for each in read(list(map(Path, files)), lambda _: iter(())) if not isinstance(each, str)]
    steps = [step for step, _ in zip(draw(found, random.Random(int(seed))), range(TURNS), strict=False)]
    rows = (" ".join(steps[first : first + 20]) for first in range(0, TURNS, 20))
    sys.stdout.write("".join((HEAD, *(f"{row}\n" for row in rows))))


if __name__ == "__main__":
    main(*sys.argv[1:])
