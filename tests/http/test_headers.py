"""End-to-end headers pass; hop-by-hop headers, the proxy's own headers and secrets go nowhere they should not."""

import pytest

from mnemosyne.http.headers import for_client, for_upstream, loggable, loggable_path


def test_hop_by_hop_headers_are_dropped_and_the_rest_keeps_order_case_and_repeats() -> None:
    headers = (
        (b"X-Api-Key", b"k"),
        (b"Connection", b"keep-alive, X-Private"),
        (b"X-Private", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Via", b"a"),
        (b"via", b"b"),
    )
    assert for_client(headers) == ((b"X-Api-Key", b"k"), (b"Via", b"a"), (b"via", b"b"))


def test_content_length_of_a_chunked_reply_does_not_reach_the_client() -> None:
    headers = ((b"Content-Length", b"5"), (b"transfer-encoding", b"chunked"), (b"a", b"b"))
    assert for_client(headers) == ((b"a", b"b"),)
    assert for_client(headers[:1]) == headers[:1]


def test_provider_never_sees_proxy_headers_or_the_clients_host_header() -> None:
    headers = ((b"Host", b"127.0.0.1:8787"), (b"X-Mnemosyne-Session", b"s"), (b"Expect", b"100-continue"), (b"a", b"b"))
    assert for_upstream(headers) == ((b"a", b"b"),)


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        (b"/v1/messages?key=CANARY", "/v1/messages"),
        (b"http://user:CANARY@host/v1/sk-ant-CANARY/x", "http://…@host/v1/…/x"),
        (b"/v1/ghp_CANARYabcdefghijklmnopqrstuvwxyz0123/x", "/v1/…/x"),
        *(
            (b"/v1beta/files/" + part + b"/content:upload", "/v1beta/files/…/content:upload")
            for part in (b"0f8fad5bd9cb469fa165", b"C" * 25, b"key=CANARY", b"C%41NARY", b"msg_01CANARY")
        ),
    ],
)
def test_only_words_of_a_path_are_logged(path: bytes, logged: str) -> None:
    assert loggable_path(path) == logged


KEYS = b"a1b2c3d4e5f6a7b8c9d0", b"gw-Key-0123456789abcdef", b"0123456789abcdef" * 4
SESSION = b"0b5e0f6c-1f1f-4a3e-9a4e-0f6c1f1f4a3e"


@pytest.mark.parametrize(
    ("headers", "logged"),
    [
        ({b"X-Api-Key": b"k", b"Authorization": b"k", b"Cookie": b"k", b"User-Agent": b"x/1"}, "user-agent=x/1"),
        (
            {b"X-Api-Key": b"a-gateway-s-key", b"X-Session-Id": b"of a-gateway-s-key", b"X-App": b"cli"},
            f"x-session-id=of {'*' * 15}, x-app=cli",
        ),
        *(
            ({b"X-Gate": key, b"User-Agent": b"x/1 (%s)" % key}, f"user-agent=x/1 ({'*' * len(key)})")
            for key in (*KEYS, b"sk-ant-api03-CANARYCANARYCANARY")
        ),
        *(
            ({name: key}, f"{name.decode().lower()}={'*' * len(key)}")
            for key in KEYS
            for name in (b"X-Session-Id", b"X-Claude-Code-Agent-Id", b"X-Parent-Session-Id")
        ),
        *(
            ({name: value}, f"{name.decode().lower()}={value.decode()}")
            for name, value in (
                (b"X-Claude-Code-Session-Id", SESSION),
                (b"X-Session-Id", b"ses_4a7b9c0d1e2f3a4b"),
                (b"User-Agent", b"claude-cli/2.1.329"),
                (b"Anthropic-Beta", b"claude-code-20250219"),
            )
        ),
    ],
)
def test_only_listed_headers_are_logged_and_no_key_in_them(headers: dict[bytes, bytes], logged: str) -> None:
    assert loggable(tuple(headers.items())) == logged
