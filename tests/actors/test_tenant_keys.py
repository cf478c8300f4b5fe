"""A request's credential decides its tenant: a key never reaches another tenant's sessions."""

import logging
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.turn import TurnOpener
from mnemosyne.config import load, render
from mnemosyne.credentials import digest
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.setting_values import TenantKey
from tests.actors.support import StoppableLog, headers, open_process, request
from tests.plain.directory import PlainDirectory

ROWS = {"key-of-red": "red", "another-of-red": "red", "key-of-blue": "blue"}
OTHERS = ("", "nobody-s", "key-of-re", "KEY-OF-RED", digest("key-of-red"))
FORMS = ("x-api-key: {}", "X-Api-Key:  {} ", "authorization: Bearer {}", "Authorization: bearer  {}")
SHA = digest("key-of-red")


def opener_of(log: StoppableLog, opener: TurnOpener) -> TurnOpener:
    finders = {name: SessionFinder(opener.registry, PlainDirectory(log), name) for name in ROWS.values()}
    return attrs.evolve(opener, of_keys={digest(key): finders[name] for key, name in ROWS.items()})


@given(
    st.lists(
        st.tuples(st.sampled_from([*ROWS, *OTHERS]), st.sampled_from(FORMS), st.sampled_from(("s", "t", ""))),
        min_size=2,
        max_size=6,
    )
)
def test_a_request_reaches_no_session_but_those_of_its_key_s_tenant(asked: list[tuple[str, str, str]]) -> None:
    async def ask() -> None:
        log = StoppableLog()
        async with open_process(log) as process:
            opener = opener_of(log, process.opener)
            owners: dict[object, str] = {}
            for key, form, session in asked:
                name, _, value = form.format(key).partition(":")
                sent = [*headers(session), (name, value)] if session else [(name, value)]
                turn = opener.open_turn(tuple(sent), request("Where is it?", "There.", "And now?"), MESSAGES)
                turn.note_sent()
                await turn.note_begun()
                found = await turn.identity()
                assert found.tenant == ROWS.get(key, "t")
                assert found.stream == stream_of(found.tenant, found.external_id)
                assert owners.setdefault(found.stream, found.tenant) == found.tenant
                assert not session or found.external_id == session

    trio.run(ask)


async def test_missing_tenant_row_is_logged_once_without_the_credential(
    log: StoppableLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_process(log) as process:
        for opener, times in ((process.opener, 0), (opener_of(log, process.opener), 1)):
            with caplog.at_level(logging.DEBUG):
                for _ in range(2):
                    opener.open_turn((("x-api-key", "nobody-s"),), request("Hello"), MESSAGES)
            assert caplog.text.count("without a credential of tenant_keys is assigned to tenant t") == times
    assert "nobody-s" not in caplog.text
    assert digest("nobody-s") not in caplog.text


def test_rows_are_read_from_a_table_or_text(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[tenant_keys]\n{SHA} = "red"\n')
    rows = load({}, {"HOME": str(tmp_path)}, config_file=file).tenant_keys
    assert rows == (TenantKey(SHA, "red"),)
    assert load({"tenant_keys": render(rows)}, {"HOME": str(tmp_path)}).tenant_keys == rows


@pytest.mark.parametrize(
    "rows", ["my-secret=red", f"{SHA}", f"{SHA}=a b", f"{SHA.upper()}=red", f"{SHA}=red,{SHA}=blue", "red=my-secret"]
)
def test_invalid_rows_are_refused_without_showing_them(rows: str, tmp_path: Path) -> None:
    for options, environ in (({"tenant_keys": rows}, {}), ({}, {"MNEMOSYNE_TENANT_KEYS": rows})):
        with pytest.raises((BadConfiguration, BadOption), match=r"tenant_keys = \*\*\* ") as refused:
            load(options, {"HOME": str(tmp_path), **environ})
        assert "my-secret" not in str(refused.value)
        assert SHA not in str(refused.value).lower()


async def test_named_tenant_takes_precedence_over_the_key_s(log: StoppableLog) -> None:
    async with open_process(log) as process:
        opener = opener_of(log, process.opener)
        for of_tenant, tenant in ((opener.of_keys[digest("key-of-blue")], "blue"), (None, "red")):
            chosen = attrs.evolve(opener, of_tenant=None if of_tenant is None else lambda name: of_tenant)  # noqa: B023
            sent = (*headers("s"), ("x-api-key", "key-of-red"), ("X-Mnemosyne-Tenant", " blue "))
            found = await chosen.open_turn(sent, request("Hello"), MESSAGES).identity()
            assert found.tenant == tenant
