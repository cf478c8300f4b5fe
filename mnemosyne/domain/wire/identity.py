"""Identify the client, session, branch and kind of a request.

Headers come first, because clients that know their session name it there; texts are read only if no header decides. The
tables list observations by client version; an unknown client is identified by the root of its history. A wrong
identification costs an extra branch but never changes a request.
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
from mnemosyne.domain.wire.blocks import texts_in
from mnemosyne.domain.wire.dialects import side_of
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.transcript import Transcript

Client = Literal["claude-code", "opencode", "codex", "anthropic-sdk", "openai-sdk", "other"]
Credential = Literal["key", "oauth", "bearer"]
"""The kind of credential in a request: an API key, a token from the user's login, or another token."""


class RequestKind(Enum):
    """The purpose of a request."""

    TURN = "turn"
    TITLE = "title"
    COMPACTION = "compaction"
    """The client asks for a summary to replace its history."""
    SUCCESSOR = "successor"
    """The history begins with such a summary."""
    SIDE = "side"
    """Any other request without tools."""


@attrs.frozen
class UserAgent:
    """How the user-agent header of a client begins."""

    client: Client
    opening: str


AGENTS = (
    UserAgent("claude-code", "claude-cli/"),  # "claude-cli/2.1.329 (external, sdk-cli)"
    UserAgent("opencode", "opencode/"),  # "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14"
    UserAgent("anthropic-sdk", "Anthropic/"),  # "Anthropic/Python 2.11.0"
    UserAgent("anthropic-sdk", "AsyncAnthropic/"),
    UserAgent("codex", "codex"),  # "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown", "codex-tui/0.171.0 (…"
    UserAgent("openai-sdk", "OpenAI/"),  # "OpenAI/Python 3.52.0"
    UserAgent("openai-sdk", "AsyncOpenAI/"),
)

_SECRET = pattern(r"(?i)(?:bearer|basic)\s|sk-")
"""How a credential begins, in any header or field."""

_VERSION = pattern(r"(?<!\d)\d++(?:\.\d+)+[\w.-]*")
_NUMBERS = pattern(r"\d{1,9}(?:\.\d{1,9})*")

SESSION_HEADER = "x-mnemosyne-session"
TENANT_HEADER = "x-mnemosyne-tenant"
"""The owner of a request, as named by a trusted proxy."""

SESSION_HEADERS: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("x-claude-code-session-id",),  # 2.1.197 and 2.1.329
    "opencode": ("x-session-id", "x-session-affinity"),  # 1.18.33
    "codex": ("session-id", "session_id"),  # 0.169.0
}
"""The headers in which a client names its session, preferred first."""

PARENT_SESSION_HEADER = "x-parent-session-id"
"""opencode 1.18.33: a sub-agent has its own id and names the session that called it."""

AGENT_HEADER = "x-claude-code-agent-id"
PARENT_AGENT_HEADER = "x-claude-code-parent-agent-id"
"""Claude Code 2.1.329: a sub-agent has the session's id, and its own in this header. The parent's header was not
captured.
"""

THREAD_HEADER = "thread-id"
"""Codex 0.169.0: the conversation of an agent; the main agent's has the session's own id."""

API_KEY, OAUTH_TOKEN, OAUTH_BETA = "sk-ant-api", "sk-ant-oat", "oauth-20"
"""How an API key begins, how a token from Claude Code's login begins, and the beta header sent with such a token."""

BETAS_HEADER = "anthropic-beta"
UNRECORDED = "\x01"
"""In place of a value that the log does not contain: text that no header can contain."""

LOGIN_HEADER = "chatgpt-account-id"
"""The header that Codex 0.169.0 sends with the token of a login."""

_API_KEY = pattern(r"sk-(?:ant-api|(?!ant-|admin-))[!-~]++")
"""An API key of Anthropic, or of OpenAI and services that write keys like it. Other keys that begin so are tokens of a
login (``sk-ant-oat``, ``sk-ant-ort``, ``sk-ant-sid``), or administer an organization.
"""

READS_ITERATIONS: Mapping[str, tuple[int, ...]] = {"claude-code": (2, 1, 329)}
"""Clients that take the context size from the last of the ``iterations`` of a ``usage``, and the first version observed
to do so. Claude Code 2.1.197 and opencode 1.18.33 take it from the top-level counts.
"""

Where = Literal["first user", "last user", "opening", "system"]
"""Where to look for a text. ``opening`` is all user messages before the model's first message."""


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
    Telltale("codex", "0.171.0", RequestKind.TITLE, "last user", True, "Generate a concise, single-line task title"),
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
"""Texts that identify a kind of request. A row applies to its client and to clients that are not identified."""


@attrs.frozen(kw_only=True)
class ClientHeaders:
    """The client as its headers describe it; enough to choose the previous transcript."""

    client: Client
    version: str | None
    external_id: str | None
    parent_external_id: str | None
    agent_id: str | None
    parent_agent_id: str | None
    credential: Credential | None = None
    """Only its kind; the credential itself is not kept."""
    betas: tuple[str, ...] | None = None
    """The names in its beta headers, sorted; None if they are not known."""

    @property
    def reads_iterations(self) -> bool:
        """Whether a ``usage`` may hold the sum of several rounds while its ``iterations`` give the context size."""
        since = READS_ITERATIONS.get(self.client)
        numbers = _NUMBERS.match(self.version or "")
        return since is not None and numbers is not None and tuple(map(int, numbers.group().split("."))) >= since


@attrs.frozen(kw_only=True)
class RequestOrigin(ClientHeaders):
    """The sender of a request and its purpose.

    ``external_id`` is the client's name for its session, or None. For a sub-agent of opencode it is the calling
    session, which is also in ``parent_external_id``; with nested sub-agents, that is a sub-agent's session.
    ``agent_id`` is None for the main agent. ``conversation`` is ``main``, ``agent:<id>`` or ``side``, with the name of
    a dialect in front (``dialects``): the one in which the request was read, or the conversation of side requests. A
    compaction request belongs to the conversation of the agent whose history it closes.
    """

    conversation: str
    kind: RequestKind

    @property
    def may_be_of_user(self) -> bool:
        """Whether the user may have submitted its last prompt; otherwise an agent or the client wrote it."""
        is_turn = self.kind in (RequestKind.TURN, RequestKind.SUCCESSOR)
        return is_turn and self.agent_id is None and self.parent_external_id is None


def read_client_headers(headers: Iterable[tuple[str, str]]) -> ClientHeaders:
    """Read the client from its headers.

    Header names are case-insensitive; the first of repeated headers counts, empty ones are ignored.
    """
    given = tuple(headers)
    keys = credentials.in_headers(given)
    values: dict[str, str] = {}
    for name, value in given:
        if value.strip():
            values.setdefault(name.lower(), _hide_if_secret(value.strip(), keys))
    user_agent = values.get("user-agent", "")
    client: Client = next((agent.client for agent in AGENTS if user_agent.startswith(agent.opening)), "other")
    version = _VERSION.search(user_agent)
    # Any client may send another client's headers: gateways and forks keep them while they change the user-agent.
    names = (*SESSION_HEADERS.get(client, ()), *(name for group in SESSION_HEADERS.values() for name in group))
    own = next((values[name] for name in names if name in values), None)
    parent = values.get(PARENT_SESSION_HEADER)
    listed = [value for name, value in given if name.lower() == BETAS_HEADER]
    betas = {_hide_if_secret(beta.strip(), keys) for value in listed for beta in value.split(",") if beta.strip()}
    thread = values.get(THREAD_HEADER) if own is not None else None
    return ClientHeaders(
        client=client,
        version=version.group() if version else None,
        external_id=values.get(SESSION_HEADER) or parent or own,
        parent_external_id=parent,
        agent_id=values.get(AGENT_HEADER) or (own if parent else thread if thread != own else None),
        parent_agent_id=values.get(PARENT_AGENT_HEADER),
        credential=_kind_of_credential(given, betas),
        betas=None if UNRECORDED in listed else tuple(sorted(betas)),
    )


def _kind_of_credential(headers: Iterable[tuple[str, str]], betas: Iterable[str]) -> Credential | None:
    values = {name.lower(): value.strip() for name, value in headers}
    scheme, _, token = values.get("authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    if token.startswith(OAUTH_TOKEN) or (token and any(OAUTH_BETA in beta for beta in betas)):
        return "oauth"
    if values.get("x-api-key") or token.startswith(API_KEY):
        return "key"
    return "bearer" if token else None


def find_api_key(headers: Iterable[tuple[str, str]]) -> str | None:
    """Return the API key in a request's headers. None for a token from a login, a form that is not known to be a key,
    or several credentials.
    """
    given = [(name.lower(), value.strip()) for name, value in headers]
    schemes = [value.partition(" ") for name, value in given if name == "authorization"]
    found = {value for name, value in given if name == "x-api-key"} | {token.strip() for _, _, token in schemes}
    is_login = any(name == LOGIN_HEADER or (name == BETAS_HEADER and OAUTH_BETA in value) for name, value in given)
    if is_login or len(found) != 1 or any(scheme.lower() != "bearer" for scheme, _, _ in schemes):
        return None
    (key,) = found
    return key if _API_KEY.fullmatch(key) else None


def _hide_if_secret(value: str, keys: frozenset[str] = frozenset()) -> str:
    """Return the value, or its hash if it looks like a credential, because ids are stored. ``keys`` are the credentials
    that the request itself sends to its provider.
    """
    is_secret = _SECRET.match(value) or credentials.is_in(value) or any(key in value for key in keys)
    return f"hidden:{sha256(value.encode('utf-8', 'replace')).hexdigest()[:16]}" if is_secret else value


def identify(client: ClientHeaders, transcript: Transcript, keys: frozenset[str] = frozenset()) -> RequestOrigin:
    """Identify the sender and purpose of a request. ``keys`` are the credentials in its headers. Never raises."""
    kind = _kind(client, transcript)
    conversation = (
        side_of(transcript.conversation) if kind in (RequestKind.TITLE, RequestKind.SIDE) else transcript.conversation
    )
    named = attrs.evolve(client, external_id=client.external_id or _id_in_metadata(transcript, keys))
    return RequestOrigin(**attrs.asdict(named), conversation=conversation, kind=kind)


def account_of(headers: Iterable[tuple[str, str]], transcript: Transcript) -> str | None:
    """Return a digest of the account that pays for a request: of its id, if the client names one, else of the
    credential; None without either.
    """
    given = tuple(headers)
    login = next((value.strip() for name, value in given if name.lower() == LOGIN_HEADER), None)
    named = _text_in_metadata(transcript, "account_uuid") or login or next(credentials.keys_in(given), None)
    return credentials.digest(named)[:16] if named else None


def _id_in_metadata(transcript: Transcript, keys: frozenset[str]) -> str | None:
    session = _text_in_metadata(transcript, "session_id")
    return _hide_if_secret(session, keys) if session else None


def _text_in_metadata(transcript: Transcript, name: str) -> str | None:
    """Claude Code 2.1.329 sends JSON with device_id, account_uuid and session_id in ``metadata.user_id``."""
    try:
        user = json_values.storable(json_values.read(transcript.fields.user_id or "null"))
    except (ValueError, RecursionError):
        return None
    text = user.get(name) if isinstance(user, dict) else None
    return text if isinstance(text, str) else None


def _kind(client: ClientHeaders, transcript: Transcript) -> RequestKind:
    fields = transcript.fields
    if _types_at(transcript, -1) == ["compaction_trigger"]:  # Codex 0.169.0 with the vendor's own provider
        return RequestKind.COMPACTION
    if _types_at(transcript, _first_of_model(transcript)) == ["compaction"]:
        return RequestKind.SUCCESSOR
    for telltale in TELLTALES:
        applies = client.client in (telltale.client, "other") and telltale.tools == fields.has_tools
        if applies and _says(transcript, telltale):
            return telltale.kind
    if fields.has_tools:
        return _kind_by_shape(client, transcript)
    if fields.has_output_format and len(transcript.messages) <= 1:
        # Claude Code 2.1.197 and 2.1.329 request {"title": …} by a schema; no main turn is a single message with one.
        return RequestKind.TITLE
    # An SDK program without tools is a conversation like any other; an agent's request without tools is not.
    return RequestKind.SIDE if client.client in ("claude-code", "opencode") else RequestKind.TURN


def _kind_by_shape(client: ClientHeaders, transcript: Transcript) -> RequestKind:
    """Recognize requests of Claude Code 2.1.329 by their structure, in case its texts change."""
    if client.client != "claude-code" or len(transcript.messages) < 3:
        return RequestKind.TURN
    roles = [transcript.messages[index].role for index in (0, 1, -2, -1)]
    # After /compact: the summary, then an empty system message with an output_config.
    if roles[:2] == ["user", "system"] and transcript.message(1).get("content") == []:
        return RequestKind.SUCCESSOR
    # A compaction request keeps the marker before its own text, on the assistant's message; a turn marks its last
    # message.
    if roles[2:] == ["assistant", "user"] and not _is_marked(transcript.message(-1)):
        return RequestKind.COMPACTION if _is_marked(transcript.message(-2)) else RequestKind.TURN
    return RequestKind.TURN


def _first_of_model(transcript: Transcript) -> int:
    """Return the index of the model's first message, or the number of messages without one."""
    count = len(transcript.messages)
    return next((at for at in range(count) if transcript.messages[at].role == "assistant"), count)


def _types_at(transcript: Transcript, index: int) -> list[object]:
    """Return the types of the blocks of a message in the Responses dialect; empty if there is no such message."""
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
        return texts_in(transcript.system)
    count = len(transcript.messages)
    indexes = range(count - 1, -1, -1) if where == "last user" else range(count)
    if where == "opening":
        indexes = range(_first_of_model(transcript))
    of_users = (index for index in indexes if transcript.messages[index].role == "user")
    contents = (transcript.message(index).get("content") for index in of_users)
    return [text for content in (contents if where == "opening" else islice(contents, 1)) for text in texts_in(content)]
