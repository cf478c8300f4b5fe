"""Detect credentials: by their provider's format, by the word before them, or by the name of their JSON member.

Pure, and linear in the text: each pattern begins with a literal prefix, and its repetitions are possessive or bounded.
A password in the middle of a sentence has no format and is not detected.
"""

import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import groupby

Range = tuple[int, int]
"""Offsets ``(start, end)``, end excluded."""

MASK = "*"
"""The replacement for each character of a credential."""

_ENDINGS = (
    *("token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credentials"),
    *("licensekey", "sshkey", "databaseurl"),
    *("accesskey", "accountkey", "apikey", "apikeys", "encryptionkey", "masterkey", "privatekey", "secretkey"),
    *("sharedkey", "signingkey", "subscriptionkey", "authorization", "cookie", "cookies"),
    *("auth", "authheader", "bearer", "connectionstring", "jwt", "otp", "passcode", "pwd"),
    *("accesskeyid", "secretid"),
)
"""Endings of credential names, without ``_``, ``-`` and ``.``, in lower case.

The Messages API defines ``mcp_servers[].authorization_token`` and ``fallback_credit_token``; gateways and other
dialects use the others.
"""


_WORDS = re.compile(
    r"(?:\A|_)(?:pass|pw|pin|dsn|database_url|pat|key|userpass|hmac|salt|nonce|csrf|sessionid|login)"
    r"(?:_?(?:v?\d{1,4}|value))?_?\Z"
)
"""Short words that name a secret alone or after a separator: ``db_pass``, not ``bypass``."""

_SEPARATOR = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Between the words of a name, such as ``db-pass``, ``dbPass`` and ``DBPass``; a dot is one as well."""

_NO_SECRETS = frozenset({"prompt_cache_key"})
"""Members of the providers' APIs with such a name and no secret."""

HEADERS = "headers"

_WITHOUT_SEPARATORS = str.maketrans("", "", "_-.")

_NUMBERED = re.compile(r"(?:v?\d{1,4}|value)\Z")
"""Endings of one of several: ``api_key_2``, ``token_v2``, ``secret_value``."""


def is_name(name: str) -> bool:
    """Whether a member, a header or a variable of this name holds a credential."""
    plain = _NUMBERED.sub("", name.translate(_WITHOUT_SEPARATORS).lower())
    # Claude Code 2.1.329 has a setting "hostCredential". Headers for a server of tools contain its credential.
    return plain in ("credential", "sas", HEADERS) or plain.endswith(_ENDINGS)


def is_member(name: str) -> bool:
    """Whether a member of a request's body, or a field of a form, of this name holds a credential. Fewer words name one
    in a header, where ``session_id`` and ``idempotency-key`` are none.
    """
    if is_name(name):
        return True
    words = _SEPARATOR.sub("_", name).lower()
    return _WORDS.search(words) is not None and words not in _NO_SECRETS


_BARE_KEY = re.compile(r"(?=[^0-9]*+[0-9])(?=[^A-Za-z]*+[A-Za-z])[A-Za-z0-9./+=~-]{16,}+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def may_be_bare_key(text: str) -> bool:
    """Whether an id may be a key without a provider's shape: letters and digits, and no UUID."""
    return _BARE_KEY.fullmatch(text) is not None and _UUID.fullmatch(text) is None


SHORTEST = 8
"""Minimum number of characters: shorter matches are parts of words, not keys."""


def in_headers(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The credentials in the headers of a request, also without the scheme before them, and what ``Basic`` encodes."""
    values = [value.strip() for name, value in headers if is_name(name)]
    parts = {part.strip() for value in values for part in (value, value.partition(" ")[2], *_decode_basic(value))}
    return frozenset(part for part in parts if len(part) >= SHORTEST)


def _decode_basic(value: str) -> tuple[str, ...]:
    """``user:password`` and the password in a header's value (RFC 7617); empty without them."""
    scheme, _, encoded = value.partition(" ")
    try:
        pair = b64decode(encoded.strip(), validate=True).decode() if scheme.lower() == "basic" else ""
    except ValueError:
        return ()
    return pair, pair.partition(":")[2]


def digest(credential: str) -> str:
    """The SHA-256 of a credential, in hexadecimal digits, as in ``tenant_keys``."""
    return sha256(credential.encode("utf-8", "replace")).hexdigest()


def keys_in(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The keys of a request: its ``x-api-key``, and then its bearer token."""
    fields = {name.lower(): value.strip() for name, value in headers}
    if "x-api-key" in fields:
        yield fields["x-api-key"]
    scheme, _, token = fields.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield token.strip()


_MIXED = r"(?=[A-Za-z_./+=~-]{0,60}+[0-9])"
"""A key has more than words."""

_ESCAPES = r"(?<=\\[bfnrt]%s)|(?<=\\u[0-9a-fA-F]{4}%s)|(?<=%%[0-9a-fA-F]{2}%s)"
"""Escaped characters in JSON and URLs, whose last letter does not belong to the following word."""

_Shape = tuple[str, str]
"""The literal prefix, and the pattern of the rest; a group marks the secret, else the whole match is."""


def _word(begin: str, rest: str) -> _Shape:
    """A shape that begins a word."""
    here = re.escape(begin)
    return begin, rf"(?:(?<![A-Za-z0-9_-]{here})|{_ESCAPES % (here, here, here)}){rest}"


_KEYS = (
    _word("sk-", rf"(?:(?:ant|proj|or|svcacct|admin)-[\w-]{{12,}}+|{_MIXED}[\w-]{{20,}}+)"),
    _word("sk_", r"(?:live|test)_[A-Za-z0-9]{10,}+"),
    _word("rk_", r"(?:live|test)_[A-Za-z0-9]{10,}+"),
    _word("whsec_", r"[A-Za-z0-9+/=]{20,}+"),
    *(_word(each, r"[A-Z0-9]{16}(?![A-Za-z0-9])") for each in ("AKIA", "ASIA", "ABIA", "ACCA")),
    *(_word(f"gh{each}_", r"[A-Za-z0-9]{30,}+") for each in "pousr"),
    _word("github_pat_", r"\w{22,}+"),
    *(_word(f"gl{each}-", r"[\w.-]{20,}+") for each in ("pat", "dt", "rt", "soat", "cbt", "ptt", "ft", "imt")),
    *(_word(f"xox{each}-", r"[A-Za-z0-9-]{10,}+") for each in "abeoprs"),
    _word("xapp-", r"[0-9]-[A-Za-z0-9-]{10,}+"),
    ("hooks.slack.com/services/", r"([A-Za-z0-9/]{20,}+)"),
    _word("AIza", r"[\w-]{35}"),
    _word("ya29.", r"[\w-]{20,}+"),
    _word("GOCSPX-", r"[\w-]{20,}+"),
    _word("npm_", r"[A-Za-z0-9]{36}"),
    _word("pypi-", r"AgE[\w-]{40,}+"),
    *(_word(each, r"[A-Za-z0-9]{20,}+") for each in ("hf_", "gsk_", "xai-", "r8_", "pplx-")),
    _word("dapi", r"[a-f0-9]{32}"),
    _word("SG.", r"[\w-]{16,}+\.[\w-]{16,}+"),
    *(_word(f"do{each}_v1_", r"[a-f0-9]{64}") for each in "opr"),
    *(_word(f"shp{each}_", r"[a-fA-F0-9]{32}") for each in ("at", "ca", "pa", "ss")),
    _word("hvs.", r"[\w-]{20,}+"),
    _word("AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}+"),
    ("AccountKey=", r"([A-Za-z0-9+/]{40,}+={0,2})"),
    # JSON Web Tokens, signed ones of three parts and encrypted ones of five.
    _word("eyJ", r"[\w-]{8,}+\.(?:eyJ[\w-]{4,}+\.[\w-]*+|[\w-]*+(?:\.[\w-]{8,}+){3})"),
)
"""Keys and tokens by the prefix of their provider."""

_PEM_LINE = r"[^A-Za-z0-9+/=-]{0,16}+[A-Za-z0-9+/=]{16,}+"
_PEM = (
    "-----BEGIN ",
    r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:"
    rf"((?={_PEM_LINE}|[^A-Za-z0-9]{{0,16}}n?(?:Proc-Type|Version|Comment):)(?:[^-]|-(?!----))*+)-----END"
    rf"|((?:{_PEM_LINE})++))",
)
"""A private key in PEM, with or without its end."""

_GAP = r"""["'\\]{0,8}\s{0,8}[:=]\s{0,8}"""
"""Between a name and its value, in headers, YAML, and (nested) JSON."""

_VALUE = r"""[^\s"'\\,;<>(){}\[\]$&|*`]"""

_SCHEMES = "Bearer|Basic|Digest|Token|bearer|basic|token"


def _authorization(name: str) -> _Shape:
    quotes = r"""["'\\]{0,8}"""
    return name, rf"{_GAP}{quotes}(?:(?:{_SCHEMES}) {{1,4}}({_VALUE}{{8,}}+)|{_MIXED}({_VALUE}{{8,}}+))"


def _make_shape(name: str) -> _Shape:
    quoted = r"""\\{0,7}["']([^\s"'\\]{8,400}+)\\{0,7}["']"""
    return name, rf"{_GAP}(?:{quoted}|{_MIXED}({_VALUE}{{8,}}+))"


_NAMES = (
    *("password", "Password", "PASSWORD", "passwd", "PASSWD", "secret", "Secret", "SECRET", "token", "Token", "TOKEN"),
    *("api_key", "api-key", "apikey", "apiKey", "ApiKey", "Api-Key", "API_KEY", "APIKEY", "access_key", "accessKey"),
    *("ACCESS_KEY", "secret_key", "secretKey", "SECRET_KEY", "private_key", "privateKey", "PRIVATE_KEY"),
)

_SHAPES = (
    *_KEYS,
    _PEM,
    *(_authorization(name) for name in ("Authorization", "authorization", "AUTHORIZATION")),
    *((name, rf" {{1,4}}{_MIXED}([A-Za-z0-9._~+/-]{{16,}}+=*+)") for name in ("Bearer", "bearer", "BEARER")),
    # In a URL, before the host.
    ("://", r"""(?:[^\s/@:"'<>\\?#]{0,64}+:([^\s/@"'<>\\*]{3,128}+)|([\w-]{20,128}+))@"""),
    *map(_make_shape, _NAMES),
)


def _one_of(shapes: tuple[_Shape, ...]) -> str:
    """All shapes in one pattern, grouped by their first letter, which rejects most places of a text at once."""
    by_letter = groupby(sorted(shapes, key=lambda shape: shape[0][0]), key=lambda shape: shape[0][0])
    return "|".join(
        re.escape(letter) + "(?:" + "|".join(re.escape(begin[1:]) + rest for begin, rest in group) + ")"
        for letter, group in by_letter
    )


# Compiled when first asked: that takes 15 ms, and most commands need neither.


@cache
def in_text() -> re.Pattern[str]:
    """The pattern of credentials in a text; a group marks the secret, else the whole match is."""
    return re.compile(_one_of(_SHAPES), re.ASCII)


@cache
def in_bytes() -> re.Pattern[bytes]:
    """The same for bytes."""
    return re.compile(_one_of(_SHAPES).encode())


def prepare() -> None:
    """Compile the patterns now, so that no request waits for it."""
    in_text()
    in_bytes()


PIECE_BYTES = 1 << 17
"""The size of a piece. A search blocks the interpreter: 5 MB take up to a tenth of a second."""

_TELLING_BYTES = 1 << 14
"""The number of bytes within which a credential can be recognized, however long it is."""


def find_each(pattern: re.Pattern[bytes], data: bytes) -> Iterator[re.Match[bytes]]:
    """Like ``pattern.finditer``, in pieces."""
    start, to = 0, PIECE_BYTES
    while to + _TELLING_BYTES < len(data):
        found = pattern.search(data, start, to + _TELLING_BYTES)
        if found is None or found.start() >= to:
            start, to = to, to + PIECE_BYTES
            continue
        found = pattern.match(data, found.start()) or found  # it may continue after the piece
        yield found
        start = max(found.end(), found.start() + 1)
        to = max(to, start)
    yield from pattern.finditer(data, start)


def spans(data: bytes) -> list[Range]:
    """The ranges of credentials in bytes, in order and disjoint."""
    return [match.span(match.lastindex or 0) for match in find_each(in_bytes(), data)]


def is_in(text: str) -> bool:
    """Whether the text holds a credential."""
    return in_text().search(text) is not None


def mask(text: str) -> str:
    """The text with ``MASK`` for each character of a credential."""
    found = [match.span(match.lastindex or 0) for match in in_text().finditer(text)]
    edges = [0, *(edge for span in found for edge in span), len(text)]
    parts = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    return "".join(part + MASK * (end - start) for part, (start, end) in zip(parts, [*found, (0, 0)], strict=True))


def mask_bytes(data: bytes) -> bytes:
    """The bytes with ``MASK`` for each byte of a credential."""
    return blank(data, spans(data))


def blank(data: bytes, ranges: Collection[Range]) -> bytes:
    """The bytes with ``MASK`` for each one in the ranges."""
    if not ranges:
        return data
    kept = bytearray(data)
    for start, end in ranges:
        kept[start:end] = MASK.encode() * (end - start)
    return bytes(kept)
