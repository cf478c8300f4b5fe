"""A script: plain data that defines the replies of the stand-in.

A script is a list of rules, tried in order; the first that matches a request gives the reply, and a request without a
match gets a short default. A rule that lists `replies` plays an agent's loop: the reply is chosen by how many rounds
of tool results follow the last typed prompt in the request itself, so a repeated request gets the same reply and
simultaneous clients do not disturb each other. The same data is written in JSON or TOML::

    {"rules": [
      {"when": {"lane": "main", "prompt": "tests"},
       "replies": [
         {"content": [{"type": "thinking", "thinking": "Look first."},
                      {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]},
         {"text": "All tests pass."}]}]}
"""

import base64
import json
import tomllib
from pathlib import Path
from typing import Any, Literal

import attrs

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.provider.reading import Json
from mnemosyne_lab.strict import register_shape, structure

Place = int | str
"""Where in the stream: after that many events (negative counts from the end), or before the first event so named."""


@attrs.frozen(kw_only=True)
class When:
    """Which requests a rule fits: all given conditions hold. Without conditions it fits every request.

    ``lane`` is `side` without tools, `agent` with a sub-agent's header (``agent`` is the value of
    `x-claude-code-agent-id`), `main` otherwise. ``prompt`` occurs in the last user turn that answers no tool, ``last``
    in the last one of all, ``system`` in the system prompt. ``tools``: whether the request offers any; ``tool``: one of
    that name. ``model`` is a shell pattern. ``after_tools``: whether the last turn brings tool results; ``rounds``:
    exactly that many user turns with tool results follow the last typed prompt. ``request`` is the n-th POST of a
    message to this server, from 1.
    """

    lane: Literal["main", "agent", "side"] | None = None
    prompt: str | None = None
    last: str | None = None
    system: str | None = None
    tools: bool | None = None
    tool: str | None = None
    model: str | None = None
    after_tools: bool | None = None
    rounds: int | None = None
    request: int | None = None
    agent: str | None = None
    stream: bool | None = None


@attrs.frozen(kw_only=True)
class Pace:
    """How fast a reply arrives: seconds before the head (``first``) and before each delta, and the characters of text,
    thinking or tool input in a delta. By default it is immediate. ``ping``: send one after `message_start`, as the API.
    """

    first: float = 0
    between: float = 0
    characters: int = 24
    ping: bool = True


@attrs.frozen(kw_only=True)
class Transport:
    """How the bytes of a reply travel. ``framing``: a chunk for each event, for each byte, for all, or these sizes in
    bytes, over and over. ``gzip``: if the client accepts it. ``close_after``: close the idle connection after the
    response, without announcing it. ``headers`` are added to the response.
    """

    framing: Literal["frame", "byte", "whole"] | list[int] = "frame"
    gzip: bool = False
    close_after: bool = False
    headers: list[tuple[str, str]] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class Failure:
    """A reply that is an error of the API, with its JSON body; ``type`` and ``message`` default by status.
    ``retry_after`` is in seconds.
    """

    status: int
    type: str | None = None
    message: str | None = None
    headers: list[tuple[str, str]] = attrs.field(factory=list)
    retry_after: float | None = None


@attrs.frozen(kw_only=True)
class Raw:
    """A literal response; nothing is added but the length, when no header frames the body."""

    status: int = 200
    reason: str = ""
    headers: list[tuple[str, str]] = attrs.field(factory=list)
    body: str = ""
    base64: str | None = None
    """The body's bytes, instead of `body`."""

    def payload(self) -> bytes:
        """The body's bytes. Raises ValueError when `base64` is not base64."""
        return base64.b64decode(self.base64, validate=True) if self.base64 is not None else self.body.encode()

    def __attrs_post_init__(self) -> None:
        self.payload()


_OfWhole = Literal["index_gap", "restart_index", "no_message_stop", "cut_before_reply"]
_AtPlace = Literal["second_message_start", "event", "comment", "ping", "bytes", "error_event", "silence", "cut"]


@attrs.frozen(kw_only=True)
class WireFault:
    """Something wrong, or only unusual, at a place of the stream.

    `index_gap` and `restart_index` are for the Messages dialect; all others for each.

    ========================  ==================================================================================
    kind                      what happens
    ========================  ==================================================================================
    `index_gap`               block numbers skip one after the first block
    `restart_index`           every block is number 0
    `second_message_start`    `message_start` comes again at the place
    `no_message_stop`         the stream ends in good order without `message_stop` (Chat: `[DONE]`; Responses:
                              `response.completed`)
    `event`                   an event with this `name` and `data` at the place
    `comment`                 a comment line with this `text` at the place
    `ping`                    a `ping` at the place; a comment line in the dialects that have none
    `bytes`                   this `text`, literally, at the place
    `error_event`             an `error` event with this `error_type` and `text` at the place; the stream ends
    `silence`                 nothing for `seconds` at the place
    `cut`                     the TCP connection breaks at the place, inside the next event if `inside` > 0
    `cut_before_reply`        the TCP connection breaks before any byte of the response
    ========================  ==================================================================================
    """

    kind: Literal[_OfWhole, _AtPlace]
    at: Place = -1
    name: str = "unheard_of"
    data: dict[str, Any] = attrs.field(factory=dict)
    text: str = ""
    error_type: str = "overloaded_error"
    seconds: float = 0
    inside: int = 0
    """Bytes of the next event that are still sent."""
    reset: bool = False
    """End with a TCP reset instead of a plain end of stream."""


@attrs.frozen(kw_only=True)
class ScriptedReply:
    """A reply of the model, or a failure. At most one of ``failure`` and ``raw`` replaces the message.

    ``content`` has blocks: `text`, `thinking`, `redacted_thinking`, `tool_use` (name and input; the id is made), or any
    other type, which is sent whole; ``text`` is one text block after them. Each dialect writes them as its own; a tool
    of type `custom` gets the input's `input`, a text. ``stop_reason`` is by default `tool_use` when a tool is called,
    else `end_turn`, or its equivalent in the other dialects. ``usage`` overrides fields of the computed usage,
    ``diagnostics`` the result of a cache comparison that the request asks for.
    """

    text: str | None = None
    content: list[dict[str, Any]] = attrs.field(factory=list)
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    usage: dict[str, Any] = attrs.field(factory=dict)
    diagnostics: dict[str, Any] | None = None
    pace: Pace = attrs.field(factory=Pace)
    transport: Transport = attrs.field(factory=Transport)
    faults: list[WireFault] = attrs.field(factory=list)
    failure: Failure | None = None
    raw: Raw | None = None

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """All content, as scripted."""
        text = [] if self.text is None else [{"type": "text", "text": self.text}]
        return [*self.content, *text]

    def __attrs_post_init__(self) -> None:
        needed = {"text": "text", "tool_use": "name"}
        for number, block in enumerate(self.content):
            kind = block.get("type")
            if not isinstance(kind, str):
                raise ValueError(f"content[{number}] needs a `type`")
            if kind in needed and not isinstance(block.get(needed[kind]), str):
                raise ValueError(f"content[{number}] of type {kind} needs `{needed[kind]}`")


@attrs.frozen(kw_only=True)
class ScriptRule:
    """A condition and what to answer: ``reply`` always, or ``replies[n]`` after n rounds of tools. It answers this many
    ``times`` and then no longer fits: for temporary faults. ``counting``: the rule is only for count_tokens, and its
    reply must be ``failure`` or ``raw``. ``name`` is for reports.
    """

    when: When = attrs.field(factory=When)
    reply: ScriptedReply | None = None
    replies: list[ScriptedReply] = attrs.field(factory=list)
    times: int | None = None
    name: str = ""
    counting: bool = False

    def __attrs_post_init__(self) -> None:
        if (self.reply is None) == (not self.replies):
            raise ValueError("a rule needs either `reply` or `replies`")

    def reply_for(self, rounds: int) -> ScriptedReply | None:
        """The reply after this many rounds of tools; None at the end of the list."""
        if self.reply is not None:
            return self.reply
        return self.replies[rounds] if rounds < len(self.replies) else None


@attrs.frozen(kw_only=True)
class Script:
    """All rules, and the ``default`` reply to requests with tools that fit none. ``window`` is the accepted number of
    input tokens, if not the model's own limit. Without ``diagnostics``, a request for them gets an error 400.
    ``refused_betas`` are names in `anthropic-beta` that this account may not use.
    """

    rules: list[ScriptRule] = attrs.field(factory=list)
    default: ScriptedReply | None = None
    window: int | None = None
    diagnostics: bool = True
    refused_betas: list[str] = attrs.field(factory=list)


def _place(value: Any, _: Any) -> Place:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a place is a number of events or the name of one")
    return value


def _framing(value: Any, _: Any) -> Any:
    if value in ("frame", "byte", "whole"):
        return value
    if isinstance(value, list) and value and all(isinstance(size, int) and size > 0 for size in value):
        return value
    raise ValueError('framing is "frame", "byte", "whole" or a list of sizes of 1 byte or more')


def _header(value: Any, _: Any) -> tuple[str, str]:
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return value[0], value[1]
    raise ValueError("a header is a pair of name and value")


_FRAMING = Literal["frame", "byte", "whole"] | list[int]
for _shape, _hook in ((Place, _place), (_FRAMING, _framing), (tuple[str, str], _header)):
    register_shape(_shape, _hook)


def from_data(data: Json) -> Script:
    """A script from decoded JSON or TOML.

    Raises BadConfiguration, naming each place that does not fit.
    """
    if isinstance(data, dict) and not isinstance(data.get("rules", []), list):
        raise BadConfiguration("script.rules: expected a list of rules")
    return structure(data, Script, "script")


def load(path: Path) -> Script:
    """A script from a `.toml` file, or from JSON in any other file.

    Raises BadConfiguration when the file cannot be read, is not JSON or TOML, or does not fit.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadConfiguration(f"cannot read the script {path}: {problem}") from problem
    try:
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as problem:
        raise BadConfiguration(f"the script {path} is not valid: {problem}") from problem
    try:
        return from_data(data)
    except BadConfiguration as problem:
        raise BadConfiguration(f"in the script {path}: {problem}") from problem
