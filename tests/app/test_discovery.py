"""Find a running server, and refuse a port of another user."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from mnemosyne.app import discovery
from mnemosyne.app.discovery import FoundServer, _may_be_trusted, find_server, url_of
from mnemosyne.config import load
from tests.cli.support import provider
from tests.waiting import DEADLINE

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {uid} 0 1
   1: 0100007F:2253 0100007F:9999 01 00000000:00000000 00:00000000 00000000 54321 0 2
   2: 0100007F:2254 00000000:0000 0A 00000000:00000000 00:00000000 00000000 54321 0 3
"""


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8787"),
        ("::1", "http://[::1]:8787"),
        ("localhost", "http://localhost:8787"),
        ("0.0.0.0", "http://127.0.0.1:8787"),
        ("::", "http://[::1]:8787"),
    ],
)
def test_where_a_client_on_this_machine_reaches_the_server(host: str, url: str, tmp_path: Path) -> None:
    assert url_of(load({"host": host, "allow_remote": True, "data_dir": tmp_path}, {})) == url


@pytest.mark.parametrize(("uid", "trusted"), [(0, True), (os.geteuid(), True), (12345, False)])
def test_a_port_that_another_user_holds_is_not_trusted(uid: int, trusted: bool, tmp_path: Path) -> None:
    """That user would get the token, and then the client's credentials."""
    table = tmp_path / "tcp"
    table.write_text(TABLE.format(uid=uid))
    assert _may_be_trusted(0x2253, [table, tmp_path / "missing"]) is trusted
    assert _may_be_trusted(0x2254, [table]) is False


def test_without_socket_tables_the_token_decides(tmp_path: Path) -> None:
    assert _may_be_trusted(8787, [tmp_path / "missing"]) is True


def test_our_own_listening_socket_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert _may_be_trusted(listener.getsockname()[1])


def test_a_foreign_server_is_not_found(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert find_server(load({"data_dir": tmp_path, "port": port}, {})) is None, "no token yet"
    (tmp_path / "token").write_text("secret")
    assert find_server(load({"data_dir": tmp_path, "port": port}, {})) is None, "no listener"
    assert find_server(load({"data_dir": tmp_path, "port": 0}, {})) is None, "no port is named"
    with provider() as stranger:
        assert find_server(load({"data_dir": tmp_path, "port": stranger.server_port}, {})) is None
        assert stranger.asked == ["GET /-/status"]


def test_server_that_is_slow_to_answer_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise `run` would start a second one."""
    monkeypatch.setattr(discovery, "ANSWER_SECONDS", 0.1)
    (tmp_path / "token").write_text("secret")
    body = json.dumps({"version": "0", "upstream": "https://api.example", "tenant": "local"}).encode()
    said: list[str] = []
    waiting = threading.Event()

    def tell(sentence: str) -> None:
        said.append(sentence)
        waiting.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            waiting.wait(DEADLINE)
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        server = threading.Thread(target=answer)
        server.start()
        port = listener.getsockname()[1]
        found = find_server(load({"data_dir": tmp_path, "port": port}, {}), tell)
        waiting.set()
        server.join()
    assert found is not None
    assert said == [f"the server on port {port} does not answer yet; waiting up to 120 s for it"]


def test_a_server_serves_settings_with_its_upstream_and_tenant(tmp_path: Path) -> None:
    found = FoundServer("http://127.0.0.1:1", "0", "https://api.anthropic.com", "local")
    assert found.serves(load({"data_dir": tmp_path}, {}))
    assert not found.serves(load({"data_dir": tmp_path, "tenant": "other"}, {}))
    assert not found.serves(load({"data_dir": tmp_path, "upstream": "https://other"}, {}))
