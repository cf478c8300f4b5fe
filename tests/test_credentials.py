"""A credential is found by its shape anywhere in a text; similar text is left unchanged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import credentials
from mnemosyne.credentials import blank, in_headers, is_in, is_member, is_name, mask, mask_bytes, spans
from tests.test_patterns import Compiled, slow_for

LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
HEX = "0123456789abcdef" * 4
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLW9mLWl0"

KEYS = {
    "anthropic key": f"sk-ant-api03-{LETTERS}AA",
    "anthropic login": f"sk-ant-oat01-{LETTERS}",
    "openai": f"sk-{LETTERS[:48]}",
    "openai project": f"sk-proj-{LETTERS}",
    "openrouter": f"sk-or-v1-{HEX}",
    "stripe": f"sk_live_{LETTERS[:24]}",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "github": f"ghp_{LETTERS[:36]}",
    "github app": f"ghs_{LETTERS[:36]}",
    "github fine-grained": f"github_pat_{LETTERS[:22]}_{LETTERS[:59]}",
    "gitlab": f"glpat-{LETTERS[:20]}",
    "slack": "xoxb-123456789012-1234567890123-AbCdEfGhIjKl",
    "google": f"AIza{LETTERS[:35]}",
    "google login": f"ya29.{LETTERS}",
    "npm": f"npm_{LETTERS[:36]}",
    "hugging face": f"hf_{LETTERS[:34]}",
    "groq": f"gsk_{LETTERS[:52]}",
    "sendgrid": f"SG.{LETTERS[:22]}.{LETTERS[:43]}",
    "jwt": JWT,
}

PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{LETTERS[:64]}\n" * 3 + "aGFsZg==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "around",
    ["{}", "the key is {}, I think", "x={}&y=1", "https://h/p?k={}", '{{"a": "b\\n{}"}}', "%3D{}", "\u00e9 {}."],
)
def test_provider_key_is_found_anywhere(around: str) -> None:
    for name, key in KEYS.items():
        text = around.format(key)
        found = [text.encode()[start:end].decode() for start, end in spans(text.encode())]
        assert [each.rstrip(".") for each in found] == [key], name
        assert key not in mask(text), name
        assert is_in(text), name


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer opaque-word-0f9", "opaque-word-0f9"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("curl -H 'Authorization: token abcdefgh1'", "abcdefgh1"),
        ('{"Authorization": "Bearer plainwords"}', "plainwords"),
        ('{\\"x-api-key\\": \\"abc-def-ghi\\"}', "abc-def-ghi"),
        ("x-api-key: 0123-abcd-4567", "0123-abcd-4567"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ('password = "correct-horse"', "correct-horse"),
        ("db_password: hunter2hunter2", "hunter2hunter2"),
        ("postgres://app:s3cret@db/x", "s3cret"),
        (f"https://{LETTERS[:24]}@github.com/a/b", LETTERS[:24]),
    ],
)
def test_value_after_a_credential_name_is_found_without_a_known_shape(text: str, secret: str) -> None:
    assert [text[start:end] for start, end in spans(text.encode())] == [secret]
    assert mask(text) == text.replace(secret, "*" * len(secret))


@pytest.mark.parametrize("newline", ["\n", "\\n", "\r\n", "\n    "])
@pytest.mark.parametrize("whole", [True, False])
def test_private_key_is_found_whole_or_partial_and_inside_json(newline: str, *, whole: bool) -> None:
    text = (PEM if whole else PEM[:200]).replace("\n", newline) + (" and on it goes" if whole else "")
    kept = mask(f"here: {text}")
    assert LETTERS[:20] not in kept
    assert kept.startswith("here: -----BEGIN RSA PRIVATE KEY-----*")
    assert not whole or kept.endswith("-----END RSA PRIVATE KEY----- and on it goes")


ORDINARY = (
    "task-management-for-beginners-and-experts-2024-edition",
    "the sk-circle-fade-dot-animation-is-nice",
    "token = get_token_from_environment()",
    '{"password": {"type": "string", "description": "of the user"}}',
    "Authorization: required",
    "Bearer of bad news that are very long indeed",
    "max_tokens: 4096, input_tokens=123456789",
    "-----BEGIN CERTIFICATE-----\nMIIB" + LETTERS + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB" + LETTERS + "\n-----END PUBLIC KEY-----",
    'if line == "-----BEGIN PRIVATE KEY-----": return parse(line)',
    "git@github.com:a/b.git and http://localhost:8080/a@b",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "AKIASHORT, AKIAIOSFODNN7EXAMPLELONGER",
    'api_key = os.environ["ANTHROPIC_API_KEY"]',
    "export TOKEN=$(cat file)",
)


def test_ordinary_text_is_not_changed() -> None:
    for text in ORDINARY:
        assert mask(text) == text
        assert mask_bytes(text.encode()) == text.encode()
        assert not is_in(text)


def test_masking_keeps_lengths_and_the_structure_of_json() -> None:
    said = {"a": f"k {KEYS['openai']}\n{PEM}", "b": [f"é {JWT}"], "url": "https://u:p4ssword@h/"}
    for raw in (json.dumps(said).encode(), json.dumps(said, ensure_ascii=False).encode()):
        kept = mask_bytes(raw)
        assert len(kept) == len(raw)
        assert json.loads(kept).keys() == said.keys()
        assert not spans(kept)


def test_any_bytes_can_be_searched() -> None:
    assert spans(b"\xff\xfe" + KEYS["github"].encode() + b"\xff") == [(2, 42)]
    assert blank(b"abc", [(1, 2)]) == b"a*c"
    assert blank(b"abc", []) == b"abc"


def test_names_are_recognized_by_their_ending() -> None:
    names = (
        "x-api-key Authorization authorization_token refreshToken client_secret DB_PASSWORD credential credentials "
        "api_key_2 apiKeyV2 secret_value session_jwt cookies DB_CONNECTION_STRING Helicone-Auth headers otp db_pwd "
        "sas aws_access_key_id gateway.api.key"
    )
    assert [name for name in names.split() if not is_name(name)] == []


def test_similar_beginning_of_a_name_is_not_enough() -> None:
    names = (
        "max_tokens prompt_cache_key secretary token_count model tokens hostCredential author max_tokens_2 value "
        "arkansas signature"
    )
    assert [name for name in names.split() if is_name(name)] == []


LISTED = (
    *("pass", "pw", "pin", "dsn", "database_url", "pat", "license_key", "ssh_key", "key"),
    *("userpass", "hmac", "salt", "nonce", "csrf", "sessionid", "login"),
)


def test_short_word_names_a_credential_alone_or_after_a_separator_or_capital() -> None:
    for word in LISTED:
        camel = "".join(part.capitalize() for part in word.split("_"))
        names = [word, f"db_{word}", f"my-{word}", word.upper(), f"DB_{word.upper()}", f"{word}_2", f"x_{word}_v2"]
        names += [f"session.{word}", f"db{camel}", f"DB{camel}", f"myDb{camel}2", f"a.b{camel}", f"user:{word}"]
        assert [name for name in names if not is_member(name)] == []


def test_short_word_within_another_names_nothing() -> None:
    for word in ("pass", "pw", "pin", "pat", "key", "salt", "nonce", "csrf", "login"):
        for name in (f"{word}word_count", f"{word}s_left", f"by{word}x", f"{word}_count"):
            assert not is_member(name), name


def test_names_that_only_end_like_a_short_word_do_not_count() -> None:
    names = (
        "bypass compat BYPASS app.bypass doBypass Compat promptCacheKey prompt_cache_key session_id spin monkey "
        "keyboard login_count keyCount pass.count model"
    )
    assert [name for name in names.split() if is_member(name)] == []


def test_headers_are_recognized_by_fewer_words() -> None:
    assert not any(map(is_name, ("session_id", "idempotency-key", "x-login", "sec-websocket-key")))


def test_keys_of_a_request_are_the_values_of_credential_headers() -> None:
    headers = (
        ("Authorization", "Bearer a-gateway-s-own-key"),
        ("X-Api-Key", KEYS["openai"]),
        ("Cookie", "short"),
        ("User-Agent", "claude"),
    )
    assert in_headers(headers) == {"Bearer a-gateway-s-own-key", "a-gateway-s-own-key", KEYS["openai"]}


@pytest.mark.parametrize(
    ("value", "found"),
    [("Basic dXNlcjpodXNoLWh1c2g=", {"user:hush-hush", "hush-hush"}), ("basic !", set()), ("Basic /////w==", set())],
)
def test_decoded_basic_credential_is_also_a_key_of_the_request(value: str, found: set[str]) -> None:
    assert found == in_headers([("Authorization", value)]) - {value, value.partition(" ")[2]}


@pytest.mark.parametrize("pattern", [credentials.in_text(), credentials.in_bytes()], ids=["text", "bytes"])
def test_no_text_makes_the_search_slow(pattern: Compiled) -> None:
    assert slow_for(pattern, anchored=False) is None


@given(
    st.lists(
        st.sampled_from([*KEYS.values(), PEM, "x" * 700, "password=hush-hush-1", " ", "\n", "é-", "k"]), max_size=20
    )
)
def test_search_in_pieces_finds_the_same(words: list[str]) -> None:
    data = "".join(words).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(credentials, "PIECE_BYTES", 50)
        patched.setattr(credentials, "_TELLING_BYTES", 1_000)
        pieces = spans(data)
    assert pieces == [match.span(match.lastindex or 0) for match in credentials.in_bytes().finditer(data)]
