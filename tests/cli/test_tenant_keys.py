"""Tenants are distinguished by credentials, whose hashes a command prints, or by the header of a trusted proxy."""

from functools import partial
from pathlib import Path

import pytest
import trio

from mnemosyne.credentials import digest
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import TurnBegan
from tests.app.home import at_home
from tests.cli.running import run
from tests.cli.support import invoked
from tests.http.managing import Client, text

KEY = "sk-ant-api03-of-the-red-team"
ROW = f'{digest(KEY)} = "red"\n'
COMMAND = ["config", "tenant-key", "red"]
HEADER = {"x-mnemosyne-tenant": "red"}


def test_row_for_a_credential_has_its_hash_and_never_the_credential() -> None:
    for done in (run(*COMMAND, stdin=f"{KEY}\n".encode()), run(*COMMAND, "--variable", "RED", RED=KEY)):
        assert done.stdout == ROW
        assert "[tenant_keys]" in done.stderr
        assert KEY not in done.output


@pytest.mark.parametrize("text", ["", "\n", "two words", "two\nlines", "schlüssel"])
def test_invalid_credential_has_no_row_and_is_not_shown(text: str) -> None:
    done = run(*COMMAND, stdin=text.encode(), code=2)
    assert done.stdout == ""
    assert "Standard input has no credential" in done.stderr
    assert not text.strip() or text not in done.stderr


def test_missing_variable_and_invalid_tenant_are_refused() -> None:
    run(*COMMAND, "--variable", "NOT_SET", code=2)
    run("config", "tenant-key", "a b", stdin=KEY.encode(), code=2)


@pytest.mark.release
async def test_server_distinguishes_tenants_by_their_keys_alone_and_stores_no_key(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        data = tmp_path / "data"
        data.mkdir(mode=0o700)
        (data / "config.toml").write_text(f"[tenant_keys]\n{ROW}")
        async with home.serving("manage") as url:
            red = Client(url, session="s", headers={"x-api-key": KEY})
            await red.work("Where is it?")
            sent = len(home.standin.messages)
            foreign = Client(url, session="s", headers={"x-api-key": "of-nobody"})
            await foreign.work("What did they say?")
            bearer = Client(
                url, session="s", headers={"x-api-key": "", "authorization": f"Bearer {KEY}"}, history=[*red.history]
            )
            await bearer.work("And now?")
            refused = await Client(url, session="s", headers=HEADER).turn(text("Where is it?"))
            assert "is accepted only from proxies in `tenant_proxies`, and 127.0.0.1" in refused["error"]["message"]
        home.assert_lawful()
        ask = partial(invoked, environ=home.environ)
        doctor = await trio.to_thread.run_sync(ask, "doctor")
        red_s, local_s, blue_s = [
            (await trio.to_thread.run_sync(ask, "sessions", "--json", "--tenant", tenant)).stdout
            for tenant in ("red", "local", "blue")
        ]
        assert str(stream_of("red", "s")) in red_s
        assert str(stream_of("red", "s")) not in local_s + blue_s
        assert str(stream_of("local", "s")) in local_s
        turns = [event for event in await home.events("s") if isinstance(event, TurnBegan)]
        assert 0 < len(turns) < len(home.standin.messages) - sent
    stored = all_bytes(tmp_path)
    assert KEY.encode() not in stored
    assert digest(KEY).encode() in stored  # the row
    assert KEY not in doctor.output
    assert b"tenant_keys is assigned to tenant local" in stored


@pytest.mark.release
async def test_tenant_header_of_a_trusted_proxy_is_accepted(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served("manage", "--tenant-proxies", "127.0.0.0/8,::1") as served:
            await Client(served.url, session="s", headers=HEADER).work("Where is it?")
        home.assert_lawful()
        assert all("x-mnemosyne-tenant" not in str(message).lower() for message in home.standin.messages)
        ask = partial(invoked, environ=home.environ)
        red, local = [
            (await trio.to_thread.run_sync(ask, "sessions", "--json", "--tenant", tenant)).stdout
            for tenant in ("red", "local")
        ]
        assert str(stream_of("red", "s")) in red
        assert str(stream_of("red", "s")) not in local


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
