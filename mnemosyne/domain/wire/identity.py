"""Who is speaking: which client, which session, which branch, and what kind of request it is.

Headers come first, because clients that know their session say so there; texts are looked at only where no header
tells. What was seen, and in which version, is in the tables; an unknown client falls through to the root of its
history. A wrong guess here costs a branch of its own, never a byte of the request.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import sha256
from itertools import islice
from re import compile as pattern
from typing import Any, Literal

import attrs

from mnemosyne import credentials
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.dialects import side_of
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.transcript import Transcript

Client = Literal["claude-code", "opencode", "codex", "anthropic-sdk", "openai-sdk", "other"]
Credential = Literal["key", "oauth", "bearer"]
"""What kind of credential a request has: an API key, what a client got when its user logged in, or another token."""


class RequestKind(Enum):
    """What a request is for."""

    TURN = "turn"
    TITLE = "title"
    COMPACTION = "compaction"
    """The client asks for a summary of its history, to go on without it."""
    SUCCESSOR = "successor"
    """The history begins with such a summary."""
    SIDE = "side"
    """Any other request without tools."""


@attrs.frozen
class UserAgent:
    """How a user-agent header names a client."""

    client: Client
    opening: str


AGENTS = (
    UserAgent("claude-code", "claude-cli/"),  # "claude-cli/2.1.329 (external, sdk-cli)"
    UserAgent("opencode", "opencode/"),  # "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14"
    UserAgent("anthropic-sdk", "Anthropic/"),  # "Anthropic/Python 2.11.0"
    UserAgent("anthropic-sdk", "AsyncAnthropic/"),
    UserAgent("codex", "codex_"),  # "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown"
    UserAgent("openai-sdk", "OpenAI/"),  # "OpenAI/Python 3.52.0"
    UserAgent("openai-sdk", "AsyncOpenAI/"),
)

_SECRET = pattern(r"(?i)(?:bearer|basic)\s|sk-")
"""How a value begins that is a credential, wherever it stands."""

_VERSION = pattern(r"(?<!\d)\d++(?:\.\d+)+[\w.-]*")
_NUMBERS = pattern(r"\d{1,9}(?:\.\d{1,9})*")

SESSION_HEADER = "x-mnemosyne-session"
TENANT_HEADER = "x-mnemosyne-tenant"
"""Whose a request is, where a proxy says so that is believed."""

SESSION_HEADERS: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("x-claude-code-session-id",),  # 2.1.197 and 2.1.329
    "opencode": ("x-session-id", "x-session-affinity"),  # 1.18.33
    "codex": ("session-id", "session_id"),  # 0.169.0
}
"""Where a client names its session, best first."""

PARENT_SESSION_HEADER = "x-parent-session-id"
"""opencode 1.18.33: the sub-agent has an id of its own and names the session that called it."""

AGENT_HEADER = "x-claude-code-agent-id"
PARENT_AGENT_HEADER = "x-claude-code-parent-agent-id"
"""Claude Code 2.1.329: the sub-agent has the session's id, and its own here. The parent's name was not captured."""

THREAD_HEADER = "thread-id"
"""Codex 0.169.0: the conversation of an agent; that of the main agent has the session's own id."""

API_KEY, OAUTH_TOKEN, OAUTH_BETA = "sk-ant-api", "sk-ant-oat", "oauth-20"
"""How a key begins, a token that Claude Code got for its user, and the beta that goes with such a token."""

READS_ITERATIONS: Mapping[str, tuple[int, ...]] = {"claude-code": (2, 1, 329)}
"""Which clients take the size of their window from the last of the ``iterations`` of a ``usage``, and from which
version on that was seen. Claude Code 2.1.197 and opencode 1.18.33 take it from the numbers beside them.
"""

Where = Literal["first user", "last user", "opening", "system"]
"""``opening`` is all that users say before the model's first word."""


@attrs.frozen
class Telltale:
    """A text block that begins with ``opening`` at ``where`` means ``kind``; seen in ``version`` of ``client``.

    ``tools``: whether such a request offers tools.
    """

    client: Client
    version: str
    kind: RequestKind
    where: Where
    tools: bool
    opening: str


TELLTALES = (
    Telltale("opencode", "1.18.33", RequestKind.TITLE, "first user", False, "Generate a title for this conversation:"),
    Telltale("opencode", "1.18.33", RequestKind.COMPACTION, "system", False, "You are a context summarization agent"),
    Telltale("opencode", "1.18.33", RequestKind.COMPACTION, "last user", False, "Here is the conversation so far:"),
    Telltale("opencode", "1.18.33", RequestKind.SUCCESSOR, "first user", True, "What did we do so far?"),
    Telltale("claude-code", "2.1.329", RequestKind.COMPACTION, "last user", True, "CRITICAL: Respond with TEXT ONLY"),
    Telltale(
        "claude-code",
        "2.1.329",
        RequestKind.SUCCESSOR,
        "first user",
        True,
        "This session is being continued from a previous conversation that ran out of context",
    ),
    Telltale("codex", "0.169.0", RequestKind.COMPACTION, "last user", False, "You are performing a CONTEXT CHECKPOINT"),
    Telltale("codex", "0.171.0", RequestKind.COMPACTION, "last user", True, "You are performing a CONTEXT CHECKPOINT"),
    Telltale(
        "codex",
        "0.169.0",
        RequestKind.SUCCESSOR,
        "opening",
        True,
        "Another language model started to solve this problem and produced a summary",
    ),
)
"""Texts that give a request away; a row holds for its client, and for one that does not say which it is."""


@attrs.frozen(kw_only=True)
class ClientHeaders:
    """What the headers alone say; enough to choose the previous transcript to read against."""

    client: Client
    version: str | None
    external_id: str | None
    parent_external_id: str | None
    agent_id: str | None
    parent_agent_id: str | None
    credential: Credential | None = None
    """Its kind alone; nothing of it is kept."""

    @property
    def reads_iterations(self) -> bool:
        """Whether a ``usage`` may hold the sum of several rounds, its ``iterations`` telling the window."""
        since = READS_ITERATIONS.get(self.client)
        numbers = _NUMBERS.match(self.version or "")
        return since is not None and numbers is not None and tuple(map(int, numbers.group().split("."))) >= since


@attrs.frozen(kw_only=True)
class Caller:
    """Who sent a request and what for.

    ``external_id`` is what the client calls its session, None where it gives no name. For a sub-agent of opencode it is
    the calling session, also in ``parent_external_id``; when sub-agents nest, that is itself one. ``agent_id`` is None
    for the main agent. ``lane`` is ``main``, ``agent:<id>`` or ``side``, behind the name of a dialect (``dialects``):
    the one that the request was read in, or that of side calls; a compaction request is on the lane of the agent whose
    history it closes.
    """

    client: Client
    version: str | None
    external_id: str | None
    parent_external_id: str | None
    agent_id: str | None
    parent_agent_id: str | None
    lane: str
    kind: RequestKind


def speaker(headers: Iterable[tuple[str, str]]) -> ClientHeaders:
    """What the headers say, compared without case; of a repeated one the first counts, an empty one not at all."""
    given = tuple(headers)
    keys = credentials.in_headers(given)
    values: dict[str, str] = {}
    for name, value in given:
        if value.strip():
            values.setdefault(name.lower(), _hide_if_secret(value.strip(), keys))
    user_agent = values.get("user-agent", "")
    client: Client = next((agent.client for agent in AGENTS if user_agent.startswith(agent.opening)), "other")
    version = _VERSION.search(user_agent)
    # Any client may send any client's header: gateways and forks keep them while they change the user-agent.
    names = (*SESSION_HEADERS.get(client, ()), *(name for group in SESSION_HEADERS.values() for name in group))
    own = next((values[name] for name in names if name in values), None)
    parent = values.get(PARENT_SESSION_HEADER)
    thread = values.get(THREAD_HEADER) if own is not None else None
    return ClientHeaders(
        client=client,
        version=version.group() if version else None,
        external_id=values.get(SESSION_HEADER) or parent or own,
        parent_external_id=parent,
        agent_id=values.get(AGENT_HEADER) or (own if parent else thread if thread != own else None),
        parent_agent_id=values.get(PARENT_AGENT_HEADER),
        credential=_kind_of_credential(given),
    )


def _kind_of_credential(headers: Iterable[tuple[str, str]]) -> Credential | None:
    values = {name.lower(): value.strip() for name, value in headers}
    scheme, _, token = values.get("authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    if token.startswith(OAUTH_TOKEN) or (token and OAUTH_BETA in values.get("anthropic-beta", "")):
        return "oauth"
    if values.get("x-api-key") or token.startswith(API_KEY):
        return "key"
    return "bearer" if token else None


def _hide_if_secret(value: str, keys: frozenset[str] = frozenset()) -> str:
    """The value, or a hash of it where somebody put a key where things are named: ids are stored. ``keys`` are those
    that the request itself shows to its provider.
    """
    is_secret = _SECRET.match(value) or credentials.is_in(value) or any(key in value for key in keys)
    return f"hidden:{sha256(value.encode('utf-8', 'replace')).hexdigest()[:16]}" if is_secret else value


def identify(heard: ClientHeaders, transcript: Transcript, keys: frozenset[str] = frozenset()) -> Caller:
    """Who sent this request with these headers; ``keys`` are those that it shows to its provider. Never raises."""
    kind = _kind(heard, transcript)
    lane = side_of(transcript.lane) if kind in (RequestKind.TITLE, RequestKind.SIDE) else transcript.lane
    return Caller(
        client=heard.client,
        version=heard.version,
        external_id=heard.external_id or _id_in_metadata(transcript, keys),
        parent_external_id=heard.parent_external_id,
        agent_id=heard.agent_id,
        parent_agent_id=heard.parent_agent_id,
        lane=lane,
        kind=kind,
    )


def _id_in_metadata(transcript: Transcript, keys: frozenset[str]) -> str | None:
    """Claude Code 2.1.329 puts JSON with device_id, account_uuid and session_id into ``metadata.user_id``."""
    try:
        user = json_values.storable(json_values.read(transcript.fields.user_id or "null"))
    except (ValueError, RecursionError):
        return None
    session = user.get("session_id") if isinstance(user, dict) else None
    return _hide_if_secret(session, keys) if isinstance(session, str) and session else None


def _kind(heard: ClientHeaders, transcript: Transcript) -> RequestKind:
    fields = transcript.fields
    if _types_at(transcript, -1) == ["compaction_trigger"]:  # Codex 0.169.0 with the vendor's own provider
        return RequestKind.COMPACTION
    if _types_at(transcript, _first_of_model(transcript)) == ["compaction"]:
        return RequestKind.SUCCESSOR
    for telltale in TELLTALES:
        applies = heard.client in (telltale.client, "other") and telltale.tools == fields.has_tools
        if applies and _says(transcript, telltale):
            return telltale.kind
    if fields.has_tools:
        return _kind_by_shape(heard, transcript)
    if fields.has_output_format and len(transcript.messages) <= 1:
        # Claude Code 2.1.197 and 2.1.329 ask for {"title": …} by a schema; no main turn is a single message with one.
        return RequestKind.TITLE
    # A plain SDK program without tools is a conversation like any other; an agent's request without tools is not.
    return RequestKind.SIDE if heard.client in ("claude-code", "opencode") else RequestKind.TURN


def _kind_by_shape(heard: ClientHeaders, transcript: Transcript) -> RequestKind:
    """Claude Code 2.1.329 by what it does around its texts, should they change."""
    if heard.client != "claude-code" or len(transcript.messages) < 3:
        return RequestKind.TURN
    roles = [transcript.messages[index].role for index in (0, 1, -2, -1)]
    # After /compact: the summary, then an empty system message with an output_config.
    if roles[:2] == ["user", "system"] and transcript.message(1).get("content") == []:
        return RequestKind.SUCCESSOR
    # A compaction request leaves the marker before its own text, on the assistant's message; a turn marks its last one.
    if roles[2:] == ["assistant", "user"] and not _is_marked(transcript.message(-1)):
        return RequestKind.COMPACTION if _is_marked(transcript.message(-2)) else RequestKind.TURN
    return RequestKind.TURN


def _first_of_model(transcript: Transcript) -> int:
    """The number of the model's first message; that of the next one if there is none."""
    count = len(transcript.messages)
    return next((at for at in range(count) if transcript.messages[at].role == "assistant"), count)


def _types_at(transcript: Transcript, index: int) -> list[object]:
    """The types of the blocks of one of the messages in a dialect that has items; none where there is none."""
    if transcript.dialect is not RESPONSES or not -len(transcript.messages) <= index < len(transcript.messages):
        return []
    return [block.get("type") for block in transcript.message(index).get("content") or ()]


def _is_marked(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(block, dict) and "cache_control" in block for block in content)


def _says(transcript: Transcript, telltale: Telltale) -> bool:
    return any(text.lstrip().startswith(telltale.opening) for text in _texts(transcript, telltale.where))


def _texts(transcript: Transcript, where: Where) -> list[str]:
    if where == "system":
        return _texts_of(transcript.system)
    count = len(transcript.messages)
    indexes = range(count - 1, -1, -1) if where == "last user" else range(count)
    if where == "opening":
        indexes = range(_first_of_model(transcript))
    said = (index for index in indexes if transcript.messages[index].role == "user")
    contents = (transcript.message(index).get("content") for index in said)
    return [text for each in (contents if where == "opening" else islice(contents, 1)) for text in _texts_of(each)]


def _texts_of(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
