"""A link, a cookie or the token gives access to the pages; only an owner can make changes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.inspector.access import VALID_SECONDS, Access, Visitor, may_decide
from mnemosyne.page_links import PageLinks, PageRole

TOKEN = "the-token"


def access(folder: Path, now: int = 0) -> Access:
    return Access(TOKEN, PageLinks(folder), lambda: now)


def cookie_of(folder: Path, role: PageRole = PageRole.OWNER, now: int = 0) -> str:
    found = access(folder, now).let_in(PageLinks(folder).make(role, now))
    assert found is not None
    return found


@pytest.mark.parametrize("role", list(PageRole))
def test_a_link_s_cookie_carries_its_role(tmp_path: Path, role: PageRole) -> None:
    visitor = access(tmp_path).visitor((), cookie_of(tmp_path, role))
    assert visitor is not None
    assert visitor.role is role


def test_a_cookie_expires_at_its_time(tmp_path: Path) -> None:
    cookie, end = cookie_of(tmp_path), VALID_SECONDS * 1_000_000
    assert access(tmp_path, end).visitor((), cookie) is not None
    assert access(tmp_path, end + 1).visitor((), cookie) is None


@given(st.text() | st.text("owner.reader0123456789abcdef"))
def test_a_forged_cookie_is_refused(text: str) -> None:
    assert access(Path("/nowhere")).visitor((), text) is None


def test_a_modified_cookie_is_refused(tmp_path: Path) -> None:
    reader = cookie_of(tmp_path, PageRole.READER)
    assert access(tmp_path).visitor((), reader.replace("reader", "owner")) is None
    assert Access("another-token", PageLinks(tmp_path), lambda: 0).visitor((), reader) is None


def test_a_program_with_the_token_is_the_owner_and_needs_no_csrf_token(tmp_path: Path) -> None:
    assert access(tmp_path).visitor(((b"Authorization", b"Bearer the-token"),), None) == Visitor(PageRole.OWNER, None)
    assert access(tmp_path).visitor(((b"Authorization", b"Bearer another"),), None) is None


def test_only_an_owner_with_the_csrf_token_of_the_cookie_can_change_something(tmp_path: Path) -> None:
    owner, reader = (
        access(tmp_path).visitor((), cookie_of(tmp_path, role)) for role in (PageRole.OWNER, PageRole.READER)
    )
    another = access(tmp_path).visitor((), cookie_of(tmp_path, now=1))
    assert owner is not None and reader is not None and another is not None  # noqa: PT018
    assert may_decide(owner, owner.word)
    assert not may_decide(owner, None)
    assert not may_decide(owner, another.word)
    assert not may_decide(reader, reader.word)
    assert may_decide(Visitor(PageRole.OWNER, None), None)
