r"""A scripted model: its reply depends only on the request.

It reads as a careful model would. For decisions it trusts only the user and itself: their messages, a line that
represents those, and a memory tool's quote of them; never a file. Of several decisions on one subject the newest
counts. It asks the memory tools for evicted decisions, and does not know what these do not answer.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from campaigns.northstar.conversation import MEASURED
from mnemosyne.domain.objects.ids import NOTE
from mnemosyne.domain.tools.memory_tools import QUERY, RESTORE, SEARCH
from mnemosyne_lab.provider.script import ScriptedReply
from tests.replay.message_streams import blocks_of

Json = dict[str, Any]

UNKNOWN = "I do not find what we decided."

_DECIDES = re.compile(r"\b(?:decided|decision|settled|go with|changed our mind|let's use)\b", re.IGNORECASE)
_MARKED = re.compile(r"\[?#(\w{7})(?: (?:left|in part)[^\]]*\])? ?(?:(?:Decision|Assistant|User): )?")
_IN_SEGMENT = re.compile(r"^\d+ objects: |; (?=#\w{7} )", re.MULTILINE)
"""What separates evicted objects in a line of a note."""

_ANSWERED = re.compile(r"It stands in #(\w{7}): ")
_SAID = frozenset({"design_decision", "conversation_phase", "plan", "decision"})
"""The kinds of records that hold what user and assistant said, as memory tools call them."""

_BROUGHT = "Not the user's words: these records of this conversation"
"""Begins what memory puts behind a prompt before anybody asks."""

_SPEAKER = r"(?:, (?:said|proposed) by the \w+(?:, agreed to by the user)?|, in which the user and others speak)?"
_RECORD = re.compile(rf"(?:bytes \d+-\d+, |L\d, )?(\w+){_SPEAKER}, turn (\d+)(?:, \d[\d,]* tokens in full)?(.*)")


@attrs.frozen
class Statement:
    """A sentence that decides something. ``whole`` is false if it was truncated; ``order`` grows with time;
    ``prompt`` is the user's preceding message.
    """

    sentence: str
    order: int
    object_id: str | None = None
    whole: bool = True
    prompt: str = ""


@attrs.frozen
class Read:
    """A request as the model reads it: the user's question, the earlier statements, and the work on the question so
    far.
    """

    prompt: str
    messages: Sequence[Json]
    before: Sequence[Json]
    done: Sequence[tuple[Json, str]]
    """Each call since the prompt with the text of its result."""


def model(body: Any) -> ScriptedReply:
    asked = read(body["messages"])
    for form, act in _ACTS:
        found = form.search(asked.prompt)
        if found:
            return act(asked, found)
    return _reply(f"Nothing stands in the way of that. I would take small steps: {asked.prompt.lower()}")


def _reply(text: str) -> ScriptedReply:
    return ScriptedReply(text=text)


def _call(*calls: tuple[str, Json]) -> ScriptedReply:
    thinking = {"type": "thinking", "thinking": "I have to look at something first."}
    return ScriptedReply(
        content=[thinking, *({"type": "tool_use", "name": name, "input": given} for name, given in calls)]
    )


# Reading


def calls_of(message: Json) -> list[Json]:
    return [block for block in blocks_of(message) if block["type"] == "tool_use"]


def read(messages: Sequence[Json]) -> Read:
    """A request's messages as the model reads them."""
    at = max(number for number, message in enumerate(messages) if message["role"] == "user" and _typed(message))
    calls: dict[str, Json] = {}
    done = []
    for message in messages[at + 1 :]:
        for block in blocks_of(message):
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                done.append((calls[block["tool_use_id"]], _text(block["content"])))
    return Read(_typed(messages[at])[-1], messages, messages[:at], done)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)


def _typed(message: Json) -> list[str]:
    """The text that the user typed, without an index of evicted objects and its note."""
    texts = [block["text"] for block in blocks_of(message) if block["type"] == "text"]
    return [text for text in texts if not text.startswith(("[#", "(", NOTE, _BROUGHT))]


# Decisions


def _settle(here: Read, asked: re.Match[str]) -> ScriptedReply:
    if not here.done:
        return _call(("Read", {"file_path": asked["path"]}))
    outcome = next(line for line in here.done[0][1].splitlines() if MEASURED in line).partition(MEASURED)[2]
    option, _, reason = outcome.partition("; ")
    subject = asked["subject"] or asked["again"]
    if asked["again"]:
        said = f"We changed our mind: the {subject} is {option} from now on, because {reason}."
    else:
        forms = (
            f"We decided: the {subject} is {option}, because {reason}.",
            f"I'll go with {option} for the {subject}, because {reason}.",
            f"Decision: the {subject} is {option}, because {reason}.",
        )
        said = forms[len(subject) % 3]
    return _reply(f"I read the measurements in `{asked['path']}`.\n\n{said}\n\nThe code can follow when you want it.")


def _acknowledge(here: Read, asked: re.Match[str]) -> ScriptedReply:
    return _reply("Noted. Shall I change the code now, or later?")


def statements(text: str, order: int = 0, object_id: str | None = None, prompt: str = "") -> Iterator[Statement]:
    """The sentences of a text that decide something."""
    for line in text.splitlines():
        for sentence in re.split(r"(?<=[.?!…]) ", line.strip()):
            if _DECIDES.search(sentence) and not sentence.endswith("?"):
                yield Statement(sentence, order, object_id, sentence.endswith("."), prompt)


def _is_about(sentence: str, name: str, topic: str) -> bool:
    return name in sentence and topic in sentence


def _resident(messages: Sequence[Json]) -> Iterator[Statement]:
    """The statements that the messages show as the user's or the model's, without tool results."""
    prompt = ""
    for number, message in enumerate(messages):
        prompt = [prompt, *_typed(message)][-1] if message["role"] == "user" else prompt
        for block in blocks_of(message):
            if block["type"] == "text" and not block["text"].startswith(_BROUGHT):
                yield from _attributed(block["text"], number, prompt)


def _attributed(text: str, order: int, prompt: str = "", object_id: str | None = None) -> Iterator[Statement]:
    """The statements of a text, each with the object named by a mark before it or by an own answer."""
    for line in _IN_SEGMENT.sub("\n", text).splitlines():
        marked = _MARKED.match(line)
        object_id = marked[1] if marked else object_id
        rest = line[marked.end() :] if marked else line
        named = _ANSWERED.match(rest)
        rest = rest[named.end() :] if named else rest
        yield from statements(rest, order, named[1] if named else object_id, prompt)


def _records(text: str) -> Iterator[tuple[str, str, str]]:
    """The records in memory results: for each its object's id, its description, and its text."""
    word = re.search(r"^Up to the line that ends data (\w{8}): recorded content", text, re.MULTILINE)
    if word:
        head = re.compile(rf"^--- data {word[1]}: #(\w{{7}}) (.*)$", re.MULTILINE)
        parts = head.split(text.partition(f"--- end of data {word[1]}")[0])[1:]
        for object_id, about, said in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            yield object_id, about, said.strip("\n")


def _remembered(here: Read) -> Iterator[Statement]:
    """Statements by user or assistant from memory results that were not revised since."""
    texts = [block["text"] for message in here.messages for block in blocks_of(message) if block["type"] == "text"]
    told = [text for text in texts if text.startswith(_BROUGHT)]
    told += [result for call, result in here.done if call["name"] in (QUERY, RESTORE)]
    for object_id, about, text in (record for each in told for record in _records(each)):
        found = _RECORD.fullmatch(about)
        if found and found[1] in _SAID and not found[3]:
            yield from _attributed(text, int(found[2]), "", object_id)


def _found(here: Read) -> Iterator[tuple[str, str, str]]:
    """The records in the results of searches."""
    for call, result in here.done:
        if call["name"] == SEARCH:
            yield from _records(result)


def _recall(here: Read, asked: re.Match[str]) -> ScriptedReply:
    name, topic = (asked["name"], asked["topic"]) if asked["name"] else (asked["name_2"], asked["topic_2"])
    seen = [each for each in _resident(here.before) if _is_about(each.sentence, name, topic)]
    told = [each for each in _remembered(here) if _is_about(each.sentence, name, topic)]
    made = [call["name"] for call, _ in here.done]
    best = max(seen, key=lambda each: each.order, default=None)
    if best is None or not best.whole:
        best = max((each for each in told if each.whole), key=lambda each: each.order, default=best)
    if best is not None and best.whole:
        cited = best.object_id or _cited(here, best)
        if cited is None and SEARCH not in made:
            return _call((SEARCH, {"query": best.sentence}))
        return _reply(f"It stands in #{cited}: {best.sentence}" if cited else f"No object names it: {best.sentence}")
    if QUERY not in made:
        scope = {"scope": f"#{best.object_id}"} if best is not None and best.object_id else {}
        return _call((QUERY, {"question": here.prompt, **scope}))
    if SEARCH not in made:
        return _call((SEARCH, {"query": f"decided {name} of the {topic}"}))
    hits = [
        object_id
        for object_id, about, _ in _found(here)
        if not about.startswith("L0") and _SAID & set(about.split(", "))
    ]
    if hits and RESTORE not in made:
        return _call((RESTORE, {"object_id": hits[0], "reason": here.prompt}))
    return _reply(UNKNOWN)


def _cited(here: Read, best: Statement) -> str | None:
    """The object that a search result connects to a statement or to its exchange."""
    for object_id, _, text in _found(here):
        for shown in re.findall(r"(?:Decision|User|Assistant): ([^…;]+)", text):
            if len(shown) > 30 and (shown.strip() in best.sentence or best.prompt.startswith(shown.strip())):
                return object_id
    return None


# Work


def _look(here: Read, asked: re.Match[str]) -> ScriptedReply:
    paths = re.findall(r"`(/[^`]+)`", here.prompt)
    missing = [path for path in paths if not _holds(here, path)]
    if not here.done and missing:
        return _call(*(("Read", {"file_path": path}) for path in missing))
    names = re.findall(r"def (\w+)", " ".join(text for _, text in here.done))[:3]
    return _reply(f"I looked at {', '.join(paths)}. It begins with {', '.join(names) or 'what I had read before'}.")


def _holds(here: Read, path: str) -> bool:
    """Whether the messages contain the file, without an edit since."""
    calls = {}
    holds = False
    for message in here.before:
        for block in blocks_of(message):
            if block["type"] == "tool_use":
                calls[block["id"]] = block
                if block["name"] == "Edit" and block["input"].get("file_path") == path:
                    holds = False
            elif block["type"] == "tool_result" and calls[block["tool_use_id"]]["input"].get("file_path") == path:
                holds = not _text(block["content"]).startswith("[#")
    return holds


def _run(here: Read, asked: re.Match[str]) -> ScriptedReply:
    if not here.done:
        return _call(("Bash", {"command": asked["command"]}))
    return _reply(f"The command printed {len(here.done[0][1].splitlines())} lines, and nothing in them is surprising.")


def _rename(here: Read, asked: re.Match[str]) -> ScriptedReply:
    if not here.done:
        given = {"file_path": asked["path"], "old_string": asked["old"], "new_string": asked["new"]}
        return _call(("Edit", {**given, "replace_all": True}))
    return _reply(f"`{asked['old']}` is `{asked['new']}` now, everywhere in that file.")


_ACTS = tuple(
    (re.compile(form), act)
    for form, act in (
        (r"(?:settle the (?P<subject>.+?)\. Options|The (?P<again>.+?) gives trouble).*in `(?P<path>[^`]+)`", _settle),
        (r"^Let's use ", _acknowledge),
        (
            r"what is the (?P<name>.+?) of the (?P<topic>.+?)\?|to the (?P<topic_2>.+?): which (?P<name_2>.+?) did",
            _recall,
        ),
        (r"^Look at `", _look),
        (r"^Run `(?P<command>[^`]+)`", _run),
        (r"^In `(?P<path>[^`]+)`, rename `(?P<old>\w+)` to `(?P<new>\w+)`", _rename),
    )
)
