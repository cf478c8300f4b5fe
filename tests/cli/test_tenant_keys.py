"""The row for a credential: printed by a command, and used by a server, which keeps nothing of the credential. And whom
a server believes that a request is somebody's.
"""

from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from mnemosyne.cli import main
from mnemosyne.credentials import digest
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import TurnBegan
from tests.app.home import at_home
from tests.cli.support import invoked
from tests.http.managing import Client, text

KEY = "sk-ant-api03-of-the-red-team"
ROW = f'{digest(KEY)} = "red"\n'
ASK = ["config", "tenant-key", "red"]


def test_the_row_for_a_credential_comes_from_standard_input_or_a_variable_and_does_not_show_it() -> None:
    for done in (
        CliRunner().invoke(main, ASK, input=f"{KEY}\n"),
        CliRunner().invoke(main, [*ASK, "--variable", "RED"], env={"RED": KEY}),
    ):
        assert (done.exit_code, done.stdout) == (0, ROW)
        assert "[tenant_keys]" in done.stderr
        assert KEY not in done.output


@pytest.mark.parametrize("shown", ["", "\n", "two words", "two\nlines", "schlüssel"])
def test_what_is_no_credential_has_no_row_and_is_not_shown(shown: str) -> None:
    done = CliRunner().invoke(main, ASK, input=shown)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Standard input has no credential" in done.stderr
    assert not shown.strip() or shown not in done.stderr
    assert CliRunner().invoke(main, [*ASK, "--variable", "NOT_SET"]).exit_code == 2
    assert CliRunner().invoke(main, ["config", "tenant-key", "a b"], input=KEY).exit_code == 2


async def test_a_server_tells_its_tenants_apart_by_their_keys_and_keeps_none_of_them(tmp_path: Path) -> None:
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
        home.assert_lawful()
        ask = partial(invoked, environ=home.environ)
        doctor = await trio.to_thread.run_sync(ask, "doctor")
        red_s, local_s, blue_s = [
            (await trio.to_thread.run_sync(ask, "sessions", "--json", "--tenant", each)).stdout
            for each in ("red", "local", "blue")
        ]
        assert str(stream_of("red", "s")) in red_s
        assert str(stream_of("red", "s")) not in local_s + blue_s
        assert str(stream_of("local", "s")) in local_s
        asked = [event for event in await home.events("s") if isinstance(event, TurnBegan)]
        assert 0 < len(asked) < len(home.standin.messages) - sent
    kept = all_bytes(tmp_path)
    assert KEY.encode() not in kept
    assert digest(KEY).encode() in kept  # the row
    assert KEY not in doctor.output
    assert b"tenant_keys is assigned to tenant local" in kept


async def test_a_server_believes_a_proxy_whose_a_request_is_and_nobody_else(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home:
        said = {"x-mnemosyne-tenant": "red"}
        async with home.serving("manage") as url:
            refused = await Client(url, session="s", headers=said).turn(text("Where is it?"))
            assert "is accepted only from proxies in `tenant_proxies`, and 127.0.0.1" in refused["error"]["message"]
        async with home.served("manage", "--tenant-proxies", "127.0.0.0/8,::1") as served:
            url = served.url
            await Client(url, session="s", headers=said).work("Where is it?")
        home.assert_lawful()
        assert all("x-mnemosyne-tenant" not in str(each).lower() for each in home.standin.messages)
        ask = partial(invoked, environ=home.environ)
        red, local = [
            (await trio.to_thread.run_sync(ask, "sessions", "--json", "--tenant", each)).stdout
            for each in ("red", "local")
        ]
        assert str(stream_of("red", "s")) in red
        assert str(stream_of("red", "s")) not in local


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
