"""Which strings are specifics, and that finding them never fails."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.text.entities import LONGEST, Specific, SpecificKind, key_entities, occurrences, specifics

PATH, LOCATION, ERROR, IDENTIFIER = (
    SpecificKind.PATH,
    SpecificKind.LOCATION,
    SpecificKind.ERROR,
    SpecificKind.IDENTIFIER,
)
URL, VERSION, HASH, QUOTED, NUMBER = (
    SpecificKind.URL,
    SpecificKind.VERSION,
    SpecificKind.HASH,
    SpecificKind.QUOTED,
    SpecificKind.NUMBER,
)


@pytest.mark.parametrize(
    ("text", "kind", "specific"),
    [
        ("see src/auth/middleware.ts.", PATH, "src/auth/middleware.ts"),
        ("edit ~/notes and go", PATH, "~/notes"),
        ("(README.md)", PATH, "README.md"),
        ("sphinx/locale/sphinx.po:msgid", PATH, "sphinx/locale/sphinx.po"),
        (".gitignore", PATH, ".gitignore"),
        (r"open C:\work\app.exe now", PATH, r"C:\work\app.exe"),
        ("lib/x.go-122-\tfoo", PATH, "lib/x.go"),
        ("--> src/main.rs:42:7", LOCATION, "src/main.rs:42"),
        ("tests/a_test.go:118: boom", LOCATION, "tests/a_test.go:118"),
        ("raise KeyError from it", ERROR, "KeyError"),
        ("error TS2345: no", ERROR, "TS2345"),
        ("ENOENT, no such file", ERROR, "ENOENT"),
        ("it ended with exit code 127", ERROR, "exit code 127"),
        ("HTTP 404 it says", ERROR, "HTTP 404"),
        ("x = read_config", IDENTIFIER, "read_config"),
        ("call handleAuth here", IDENTIFIER, "handleAuth"),
        ("os.path.join", IDENTIFIER, "os.path.join"),
        ("MAX_SIZE", IDENTIFIER, "MAX_SIZE"),
        ("open(name)", IDENTIFIER, "open"),
        ("run with --no-verify", IDENTIFIER, "--no-verify"),
        ("std::mem::take", IDENTIFIER, "std::mem::take"),
        ("see https://a.example/b?c=1.", URL, "https://a.example/b?c=1"),
        ("on 127.0.0.1:8787", URL, "127.0.0.1:8787"),
        ("node v18.2.0", VERSION, "v18.2.0"),
        ("trio==0.32.0rc1", VERSION, "0.32.0rc1"),
        ("commit 9d93bec", HASH, "9d93bec"),
        ("id b9b56a8d-32d9-4897-bc5e-136b7c6f65ac", HASH, "b9b56a8d-32d9-4897-bc5e-136b7c6f65ac"),
        ('say "hello there" twice', QUOTED, "hello there"),
        ("in 1154 places", NUMBER, "1154"),
        ("took 4.38s", NUMBER, "4.38s"),
        ("took 12ms", NUMBER, "12ms"),
        ("at 48.9%", NUMBER, "48.9%"),
        ("on 2026-03-13", NUMBER, "2026-03-13"),
        ("函数 parse_config 返回 src/配置.json", PATH, "src/配置.json"),
        (r"\nread_config\tcalled", IDENTIFIER, "read_config"),
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
        if kind is LOCATION:
            specific = specific.rpartition(":")[0]
        assert specific in text


@given(st.lists(st.sampled_from(["a_b", "src/a.py:7", "x(", "'lit eral'", "1234", "word", "E123", "\n"])))
def test_occurrences_are_counted_independently_of_earlier_calls(tokens: list[str]) -> None:
    text = " ".join(tokens)
    counts = occurrences(text)
    assert counts == occurrences(text)
    assert counts[Specific(IDENTIFIER, "a_b")] == tokens.count("a_b")
    assert frozenset(counts) == specifics(text)
