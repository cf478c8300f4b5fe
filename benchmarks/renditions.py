"""What the extractive helper keeps of real tool results and how fast it is, against cuts and a ranking of equal size.

The texts are the tool results of recorded sessions, which are no part of the repository; without them, the
repository's own sources stand in, and the row says so.
"""

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Group, Part, Row, Server, spread
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.summaries.extractive import MINIMUM_CHARS, main_role, summarize
from mnemosyne.domain.summaries.renditions import RenditionRequest
from mnemosyne.domain.text.entities import specifics, tokens
from tests.domain.recorded import DATA

_ROOT = Path(__file__).parents[1]
RECORDED = DATA / "sessions"
_LEAST_CHARS = 1500
"""The least that is worth a rendition: about the 500 tokens from which an object is one."""
_LEAST_SPECIFICS = 8
_SLOWEST_S_PER_MB = 0.2  # 5 MB/s
_ROUNDS = 3

Shorten = Callable[[str, int], str]


def head_and_tail(text: str, budget: int) -> str:
    """What most agents do with what is too long."""
    half = max(0, (budget - 5) // 2)
    return f"{text[:half]}\n...\n{text[len(text) - half :]}"


def ranked_lines(text: str, budget: int) -> str:
    """The lines with the highest mean TF-IDF of their tokens, each line a document, in their order."""
    lines = text.split("\n")
    words = [Counter(tokens(line)) for line in lines]
    documents = Counter(word for of_line in words for word in of_line)
    everywhere = Counter(tokens(text))

    def score(index: int) -> float:
        of_line = words[index]
        return sum(
            math.log(1 + everywhere[word]) * math.log(len(lines) / documents[word]) for word in of_line
        ) / math.sqrt(sum(of_line.values()) or 1)

    kept: set[int] = set()
    left = budget
    for index in sorted(range(len(lines)), key=lambda i: (-score(i), i)):
        if len(lines[index]) + 1 <= left:
            kept.add(index)
            left -= len(lines[index]) + 1
    return "\n".join(lines[index] for index in sorted(kept))


def requests(quick: bool) -> list[RenditionRequest]:
    """One request for an L1 of each tool result that is worth it."""
    found = list(_recorded() if RECORDED.is_dir() else _own_sources())
    return found[:: len(found) // 40 + 1] if quick else found


def speed(_: Sequence[Server], quick: bool) -> list[Row]:
    """Processor seconds per million characters, over all texts: the goal is 5 MB/s."""
    asked = requests(quick)
    size = sum(len(request.text) for request in asked) / 1e6
    rows = []
    for name, work in (("specifics", _find_all), ("extractive L1", _summarize_all)):
        seconds = []
        for _round in range(1 if quick else _ROUNDS):
            start = time.process_time()
            work(asked)
            seconds.append((time.process_time() - start) / size)
        rows.append(spread(f"{name}, per MB of text", _source(), "s", seconds, _SLOWEST_S_PER_MB))
    return rows


def kept(_: Sequence[Server], quick: bool) -> list[Row]:
    """The lost share of each text's specifics, by kind of text, for L1 (30 %) and L2 (5 %)."""
    shares: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for request in requests(quick):
        whole = specifics(request.text)
        if len(whole) < _LEAST_SPECIFICS:
            continue
        role = main_role(request).value
        l1 = summarize(request).text
        small = max(MINIMUM_CHARS, len(request.text) // 20)
        second = RenditionRequest(
            kind=request.kind,
            source_tool=request.source_tool,
            source_key=request.source_key,
            text=request.text,
            target_chars=small,
        )
        texts = {("L1", "extractive"): l1, ("L2", "extractive"): summarize(second).text}
        for name, shorten in BASELINES.items():
            texts["L1", name] = shorten(request.text, request.target_chars)
            texts["L2", name] = shorten(request.text, small)
        for (level, name), text in texts.items():
            shares[level, role, name].append(1 - len(whole & specifics(text)) / len(whole))
    return [
        spread(f"{level} of {role}: lost share of specifics", name, "", values)
        for (level, role, name), values in sorted(shares.items())
    ]


BASELINES: dict[str, Shorten] = {"head and tail": head_and_tail, "TF-IDF lines": ranked_lines}

GROUP = Group(name="renditions", variants=(), parts=(Part("speed", speed), Part("kept", kept)))


def _find_all(asked: Sequence[RenditionRequest]) -> None:
    for request in asked:
        specifics(request.text)


def _summarize_all(asked: Sequence[RenditionRequest]) -> None:
    for request in asked:
        summarize(request)


def _source() -> str:
    return "recorded tool results" if RECORDED.is_dir() else "own sources"


def _own_sources() -> Iterator[RenditionRequest]:
    for path in sorted((_ROOT / "mnemosyne").rglob("*.py")):
        yield from _request("Read", str(path), path.read_text())


def _recorded() -> Iterator[RenditionRequest]:
    for path in sorted(RECORDED.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            calls: dict[str, dict[str, object]] = {}
            for message in json.loads(line)["messages"]:
                for block in message["content"] if isinstance(message["content"], list) else ():
                    if block.get("type") == "tool_use":
                        calls[block["id"]] = block
                    elif block.get("type") == "tool_result":
                        call = calls.get(block["tool_use_id"], {})
                        given = call.get("input")
                        key = given.get("file_path") if isinstance(given, dict) else None
                        yield from _request(call.get("name"), key, _text(block.get("content")))


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _request(tool: object, key: object, text: str) -> Iterator[RenditionRequest]:
    if len(text) >= _LEAST_CHARS:
        yield RenditionRequest(
            kind=ObjectKind.TOOL_RESULT,
            source_tool=tool if isinstance(tool, str) else None,
            source_key=key if isinstance(key, str) else None,
            text=text,
            target_chars=len(text) * 3 // 10,
        )
