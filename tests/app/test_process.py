"""What goes to the log holds no credential, wherever it came from."""

import logging

import pytest

from mnemosyne.app import process

KEY = "sk-ant-api03-abcdefghijklmnopqrst"


def test_a_key_in_an_entry_or_in_an_error_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        process.start_logging("debug")
        try:
            raise ValueError(f"Authorization: Bearer {KEY}")
        except ValueError:
            logging.getLogger("mnemosyne.test").exception("of session %s", KEY)
    finally:
        root.handlers = before
        logging.getLogger("mnemosyne").setLevel(logging.NOTSET)
    said = capsys.readouterr().err
    assert KEY not in said
    assert f"of session {'*' * len(KEY)}" in said
    assert f"ValueError: Authorization: Bearer {'*' * len(KEY)}" in said


def test_ids_and_salts_are_new_each_time() -> None:
    assert len({process.new_id() for _ in range(10)}) == 10
    assert len({process.new_salt() for _ in range(10)}) == 10
