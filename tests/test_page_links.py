"""A sign-in link opens the pages once, within its lifetime, for its first user."""

import stat
from pathlib import Path

import pytest

from mnemosyne.errors import BadConfiguration
from mnemosyne.page_links import FOLDER, VALID_SECONDS, PageLinks, PageRole, link_to


def test_link_is_used_up_by_its_first_use_in_any_process(tmp_path: Path) -> None:
    secret = PageLinks(tmp_path).make(PageRole.READER, 0)
    assert PageLinks(tmp_path).use(secret, 0) is PageRole.READER
    assert PageLinks(tmp_path).use(secret, 0) is None


def test_link_expires_exactly_after_its_lifetime(tmp_path: Path) -> None:
    links, end = PageLinks(tmp_path), VALID_SECONDS * 1_000_000
    early, late = links.make(PageRole.OWNER, 0), links.make(PageRole.OWNER, 0)
    assert links.use(early, end) is PageRole.OWNER
    assert links.use(late, end + 1) is None


@pytest.mark.parametrize("secret", ["", "another", "../token", "\0"])
def test_invalid_link_opens_nothing(tmp_path: Path, secret: str) -> None:
    (tmp_path / "token").write_text("owner 0")
    PageLinks(tmp_path).make(PageRole.OWNER, 0)
    assert PageLinks(tmp_path).use(secret, 0) is None
    assert (tmp_path / "token").exists()


def test_stored_form_of_a_link_opens_nothing_and_is_private(tmp_path: Path) -> None:
    secret = PageLinks(tmp_path).make(PageRole.OWNER, 0)
    (path,) = (tmp_path / FOLDER).iterdir()
    assert secret not in path.name + path.read_text()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


def test_expired_links_are_removed_when_another_is_made(tmp_path: Path) -> None:
    PageLinks(tmp_path).make(PageRole.OWNER, 0)
    later = 10**18  # µs: long after the file was written
    PageLinks(tmp_path).make(PageRole.OWNER, later)
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file in the way")
    with pytest.raises(BadConfiguration, match=FOLDER):
        PageLinks(tmp_path).make(PageRole.OWNER, 0)


def test_address_of_a_link_names_its_page() -> None:
    assert link_to("http://127.0.0.1:8787", "/-/session/319a", "a b") == (
        "http://127.0.0.1:8787/-/session/319a?token=a%20b"
    )
