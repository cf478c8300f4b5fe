"""Which strings are specifics, and that finding them never fails."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.text.entities import LONGEST, Specific, SpecificKind, key_entities, occurrences, specifics


@pytest.mark.parametrize(
    ("text", "kind", "specific"),
    [
        ("see src/auth/middleware.ts.", SpecificKind.PATH, "src/auth/middleware.ts"),
        ("edit ~/notes and go", SpecificKind.PATH, "~/notes"),
        ("(README.md)", SpecificKind.PATH, "README.md"),
        ("sphinx/locale/sphinx.po:msgid", SpecificKind.PATH, "sphinx/locale/sphinx.po"),
        (".gitignore", SpecificKind.PATH, ".gitignore"),
        (r"open C:\work\app.exe now", SpecificKind.PATH, r"C:\work\app.exe"),
        ("lib/x.go-122-\tfoo", SpecificKind.PATH, "lib/x.go"),
        ("--> src/main.rs:42:7", SpecificKind.LOCATION, "src/main.rs:42"),
        ("tests/a_test.go:118: boom", SpecificKind.LOCATION, "tests/a_test.go:118"),
        ("raise KeyError from it", SpecificKind.ERROR, "KeyError"),
        ("error TS2345: no", SpecificKind.ERROR, "TS2345"),
        ("ENOENT, no such file", SpecificKind.ERROR, "ENOENT"),
        ("it ended with exit code 127", SpecificKind.ERROR, "exit code 127"),
        ("HTTP 404 it says", SpecificKind.ERROR, "HTTP 404"),
        ("x = read_config", SpecificKind.IDENTIFIER, "read_config"),
        ("call handleAuth here", SpecificKind.IDENTIFIER, "handleAuth"),
        ("os.path.join", SpecificKind.IDENTIFIER, "os.path.join"),
        ("MAX_SIZE", SpecificKind.IDENTIFIER, "MAX_SIZE"),
        ("open(name)", SpecificKind.IDENTIFIER, "open"),
        ("run with --no-verify", SpecificKind.IDENTIFIER, "--no-verify"),
        ("std::mem::take", SpecificKind.IDENTIFIER, "std::mem::take"),
        ("see https://a.example/b?c=1.", SpecificKind.URL, "https://a.example/b?c=1"),
        ("on 127.0.0.1:8787", SpecificKind.URL, "127.0.0.1:8787"),
        ("node v18.2.0", SpecificKind.VERSION, "v18.2.0"),
        ("trio==0.32.0rc1", SpecificKind.VERSION, "0.32.0rc1"),
        ("commit 9d93bec", SpecificKind.HASH, "9d93bec"),
        ("id b9b56a8d-32d9-4897-bc5e-136b7c6f65ac", SpecificKind.HASH, "b9b56a8d-32d9-4897-bc5e-136b7c6f65ac"),
        ('say "hello there" twice', SpecificKind.QUOTED, "hello there"),
        ("in 1154 places", SpecificKind.NUMBER, "1154"),
        ("took 4.38s", SpecificKind.NUMBER, "4.38s"),
        ("took 12ms", SpecificKind.NUMBER, "12ms"),
        ("at 48.9%", SpecificKind.NUMBER, "48.9%"),
        ("on 2026-03-13", SpecificKind.NUMBER, "2026-03-13"),
        ("函数 parse_config 返回 src/配置.json", SpecificKind.PATH, "src/配置.json"),
        (r"\nread_config\tcalled", SpecificKind.IDENTIFIER, "read_config"),
    ],
)
def test_a_specific_is_found_verbatim(text: str, kind: SpecificKind, specific: str) -> None:
    assert Specific(kind, specific) in specifics(text)


@pytest.mark.parametrize(
    "text",
    [
        "Plain words of a sentence are no specifics, and neither is and/or.",
        "It has 12 parts, 3 of them new.",
        "I would say: no. Well-known things (such as these) stay out!",
        "===== ----- ..... ///// \\\\\\\\",
        "",
    ],
)
def test_prose_has_no_specifics(text: str) -> None:
    assert specifics(text) == frozenset()


def test_line_numbers_added_by_a_reader_are_not_specifics() -> None:
    assert specifics("   118→x = 1\n   119→y = 2\n") == frozenset()


def test_a_very_long_token_is_not_a_specific() -> None:
    assert specifics("a_" * (LONGEST // 2)) != frozenset()
    assert specifics("a_" * LONGEST) == frozenset()


def test_key_entities_are_ordered_by_significance_without_repetition() -> None:
    text = "It took 4500 ms.\nrun_all in src/run.py calls helper_a; src/run.py:9 says 'no way'; see src/run.py."
    assert key_entities(text, 3) == ("src/run.py", "run_all", "helper_a")


@given(st.text())
@example("\ud83d")
@example("://" * 50)
@example("1_" * 300 + "(")
def test_every_specific_of_a_text_occurs_in_it(text: str) -> None:
    for kind, specific in specifics(text):
        if kind is SpecificKind.LOCATION:
            specific = specific.rpartition(":")[0]
        assert specific in text


@given(st.lists(st.sampled_from(["a_b", "src/a.py:7", "x(", "'lit eral'", "1234", "word", "E123", "\n"])))
def test_occurrences_are_counted_independently_of_earlier_calls(tokens: list[str]) -> None:
    text = " ".join(tokens)
    counts = occurrences(text)
    assert counts == occurrences(text)
    assert counts[Specific(SpecificKind.IDENTIFIER, "a_b")] == tokens.count("a_b")
    assert frozenset(counts) == specifics(text)
