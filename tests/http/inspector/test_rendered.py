"""A block is shown as what it is, and nothing in it becomes part of the page."""

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.inspector.rendered import FIRST_CHARACTERS, render, render_beginning

HARMLESS = """a blockquote br code dd del div dl dt em hr img ins li ol p pre s span strong
table tbody td th thead tr ul"""
ATTRIBUTES = "alt class dir href rel src start style tabindex title"


class Page(HTMLParser):
    """The elements of a rendered block; raises AssertionError for what a page must not contain."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert tag in HARMLESS.split(), tag
        for name, value in attrs:
            assert name in ATTRIBUTES.split(), name
            assert name != "href" or (value or "").lower().startswith(("http://", "https://")), value
            assert name != "src" or (value or "").startswith("data:image/png;base64,"), value
            assert name != "style" or value in ("text-align:left", "text-align:right", "text-align:center"), value


PIECES = st.sampled_from(
    [
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        "![a](https://example.com/x.png)",
        "[a](javascript:alert(1))",
        "[a](//example.com)",
        '[a](https://example.com "onclick=x)',
        "<https://example.com/\"onmouseover='x'>",
        '```"><svg onload=x>\n',
        "|a|b|\n|-|:-|\n",
        "'\"><",
        "</pre></div>",
        "&lt;b&gt;",
        "\n# ",
        "\u202e\x1b[31m",
        "data:text/html,x",
        "--- a\n+++ b\n",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=6).map("".join)


def blocks(text: str) -> list[dict[str, Any]]:
    """Every kind of block with a text in each of its places."""
    image = {"type": "image", "source": {"type": "base64", "media_type": text, "data": text}}
    linked = {"type": "image", "source": {"type": "url", "url": text}}
    given = {"file_path": text, "old_string": text, "new_string": text[::-1], text: text, "edits": [{"a": text}, text]}
    return [
        {"type": "text", "text": text},
        {"type": "thinking", "thinking": text},
        {"type": "tool_use", "name": text, "input": given},
        {"type": "tool_use", "name": text, "input": text},
        {"type": "tool_result", "content": text},
        {"type": "tool_result", "content": [{"type": "text", "text": text}, image, linked, {text: text}, text]},
        image,
        {"type": text, text: text},
    ]


@given(TEXTS)
def test_content_of_a_session_is_never_markup_of_the_page(text: str) -> None:
    for block in blocks(text):
        for rendered in (render(block), render_beginning(block)):
            Page(rendered.html)
            assert not {"\x1b", "\u202e"} & set(rendered.html)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold** and `code`", "<p><strong>bold</strong> and <code>code</code></p>"),
        ("| a |\n|--|\n| 1 |", "<td>1</td>"),
        ("```py\nx < 1\n```", "<pre><code>x &lt; 1\n</code></pre>"),
        ("# Title", '<p class="heading">Title</p>'),
    ],
)
def test_text_is_rendered_as_markdown(text: str, html: str) -> None:
    assert html in render({"type": "text", "text": text}).html


@pytest.mark.parametrize(
    "given",
    [
        {"file_path": "/a.py", "old_string": "one\ntwo", "new_string": "one\n2"},
        {"path": "/a.py", "edits": [{"oldString": "one\ntwo", "newString": "one\n2"}]},
        {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n one\n-two\n+2\n*** End Patch"},
    ],
)
def test_change_of_a_file_is_shown_as_removed_and_added_lines(given: dict[str, Any]) -> None:
    html = render({"type": "tool_use", "name": "Edit", "input": given}).html
    assert "<del>-two</del>\n<ins>+2</ins>" in html


def test_image_is_shown_only_in_the_whole_block_and_never_from_another_host() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    result = {"type": "tool_result", "content": [{"type": "image", "source": source}]}
    assert "img" in Page(render(result).html).tags
    beginning = render_beginning(result)
    assert (beginning.cut, Page(beginning.html).tags) == (True, ["p"])
    svg = {"type": "image", "source": {**source, "media_type": "image/svg+xml"}}
    assert "img" not in Page(render(svg).html).tags


def test_beginning_of_a_long_line_or_of_many_lines_is_short() -> None:
    for text in ("x" * 5_000_000, "x\n" * 100_000):
        for block in ({"type": "text", "text": text}, {"type": "tool_result", "content": text}):
            rendered = render_beginning(block)
            assert rendered.cut
            assert len(rendered.html) < 2 * FIRST_CHARACTERS


def test_content_that_is_nested_too_deeply_is_not_shown() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5_000):
        nested = {"edits": [nested]}
    assert "too deep" in render({"type": "tool_use", "input": nested}).html
