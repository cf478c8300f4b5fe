"""Each managed dialect has a rewriter for its replies, streamed and whole."""

import pytest

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.http.rewriters import make_rewriter


@pytest.mark.parametrize("dialect", [MESSAGES, RESPONSES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_reply_that_breaks_off_passes_unchanged_and_is_incomplete(dialect: Dialect, *, streamed: bool) -> None:
    rewriter = make_rewriter(dialect, NAMES, streamed=streamed, itemized=False)
    outputs = [*rewriter.feed(b'{"id": '), *rewriter.cut()]
    assert b"".join(each.raw for each in outputs) == b'{"id": '
    assert not rewriter.visible().complete
    assert rewriter.ping() == b""
