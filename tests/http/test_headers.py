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


def test_only_listed_headers_are_logged() -> None:
    line = loggable(
        ((b"X-Api-Key", b"CANARY"), (b"Authorization", b"CANARY"), (b"Cookie", b"CANARY"), (b"User-Agent", b"x/1"))
    )
    assert line == "user-agent=x/1"


def test_path_is_logged_without_query_and_keys() -> None:
    assert loggable_path(b"/v1/messages?key=CANARY") == "/v1/messages"
    assert loggable_path(b"http://user:CANARY@host/v1/sk-ant-CANARY/x") == "http://…@host/v1/…/x"


def test_key_that_names_a_session_is_not_logged() -> None:
    line = loggable(((b"X-Api-Key", b"a-gateway-s-key"), (b"X-Session-Id", b"of a-gateway-s-key"), (b"X-App", b"cli")))
    assert line == f"x-session-id=of {'*' * 15}, x-app=cli"
    assert "CANARY" not in loggable(((b"User-Agent", b"x/1 (sk-ant-api03-CANARYCANARYCANARY)"),))


@pytest.mark.parametrize("key", [b"a1b2c3d4e5f6a7b8c9d0", b"gw-Key-0123456789abcdef", b"0123456789abcdef" * 4])
def test_key_without_a_known_shape_is_not_logged_from_any_header(key: bytes) -> None:
    stars = "*" * len(key)
    assert loggable(((b"X-Gate", key), (b"User-Agent", b"x/1 (" + key + b")"))) == f"user-agent=x/1 ({stars})"
    for name in (b"X-Session-Id", b"X-Claude-Code-Agent-Id", b"X-Parent-Session-Id"):
        assert loggable(((name, key),)) == f"{name.decode().lower()}={stars}"


def test_ids_and_versions_are_logged() -> None:
    line = loggable(
        (
            (b"X-Claude-Code-Session-Id", b"0b5e0f6c-1f1f-4a3e-9a4e-0f6c1f1f4a3e"),
            (b"X-Session-Id", b"ses_4a7b9c0d1e2f3a4b"),
            (b"User-Agent", b"claude-cli/2.1.329"),
            (b"Anthropic-Beta", b"claude-code-20250219"),
        )
    )
    assert "*" not in line


def test_path_is_logged_without_anything_that_looks_like_a_key() -> None:
    assert "CANARY" not in loggable_path(b"/v1/ghp_CANARYabcdefghijklmnopqrstuvwxyz0123/x")


@pytest.mark.parametrize(
    "part", ["0f8fad5bd9cb469fa165", "CANARYCANARYCANARYCANARYC", "key=CANARY", "C%41NARY", "msg_01CANARY"]
)
def test_only_words_of_an_unknown_path_are_logged(part: str) -> None:
    path = f"/v1beta/files/{part}/content:upload"
    assert loggable_path(path.encode()) == "/v1beta/files/…/content:upload"
