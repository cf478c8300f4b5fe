"""Source code in any language: signatures first, then what is said of them, what is raised, and constants."""

import re
from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.facets import Facet, LineSigns, begins_line, each, head_of, whole_lines
from mnemosyne.domain.summaries.extractive.units import TextUnit

SIGNS = LineSigns(
    re.compile(
        r".*[;{}]\s*$|\s*(?:def|class|import|from|return|if|for|func|fn|use|const|let|var|package|public|private|@\w+|elif|"
        r"else|try|raise|with|async|export|type|#include|//|/\*|\*)\b|\s+\S.*[({\[,:)\]]\s*$|\s*[})\]]+[;,]?$|\s*//|"
        r"\s+#|#!|(?: {2,}|\t)[^-*\d\s]"
    ),
    least=0.45,
)
"""Lines by which code is known."""

SIGNATURE = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|pub(?:\([^)]*\))?|"
    r"unsafe|extern|inline|virtual|const|sealed|open|data|suspend|declare)\s+)*"
    r"(?:def|class|func|function\*?|fn|interface|trait|impl|struct|enum|type|module|namespace|package|fun|sub|"
    r"record|object|"
    r"mod|macro_rules!|protocol|extension|CREATE|create)\s+[\w<(*$`\"]"
    r"|\s*(?:export\s+)?(?:const|let|var)\s+\w+\s*(?::[^=]+)?=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>"
    r"|\s*(?:public|private|protected|static)\s[\w<>\[\], ]+\("
    r"|[A-Za-z_][\w *&:<>]*\s[*&]?[\w:~]+\([^;]*\)\s*\{?$"
)
_CONSTANT = re.compile(
    r"(?:(?:export|pub|public|static|final|const|var|let|"
    r"val)\s{1,4}){0,4}[A-Za-z_]\w{1,80}\s{0,8}(?::[^=\n]{1,80})?:?=[^=]"
    r"|\t[A-Z]\w{1,80}\s{1,40}(?:[\w.*\[\]]{1,40}\s{1,40})?="
)
_SAID = re.compile(r"\s*(?:\"\"\"|'''|///|/\*\*|//!|//|#(?!!|\[)|--|\*)\s*\w")
_EXPLAINS = re.compile(r"\s*(?:\"\"\"|///?|/\*\*?|#(?!!|\[)|--|\*)\s*[^\W\d_]+(?:[\s,:(]+[\w'-]+){3}(?!.*:\s*\Z)")
"""A comment in words: where nothing is defined, it says what is done there. One that ends in a colon only leads on."""

_RAISED = re.compile(
    r"\s*(?:raise|throw|panic!?|assert|t\.(?:Fatal|Error)f?|errors\.New|return (?:nil, |\"\", )?fmt\.Errorf|"
    r"return err\b)"
)
_PASSED_ON = re.compile(r".*(?:%[wv]\"?, ?err\)|: \{e(?:rr|xc)?\}|\bfrom e(?:rr|xc)?$|return err$|, err\)\s{0,4}$)")
"""An error of somebody else's, passed on."""

_LONGEST_IMPORT = 400
_IMPORT = re.compile(
    r"\s{0,40}(?:import|from|use|using|#include|require)\b|\s{0,40}(?:\w{1,40} )?\"[\w./@-]{1,200}\"$|"
    r"\s{0,40}package \w{1,80};?$"
)

_HEADING = re.compile(
    r"\s*(?:class|type|interface|struct|enum|trait|impl|module|namespace|protocol)\b|\S.*\b(?:struct|interface)\b"
)


def code(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of source code."""
    heads = {number: head_of(units[number]) for number in within if units[number].text and begins_line(units, number)}
    signatures = [n for n, text in heads.items() if SIGNATURE.match(text) and not is_import(text)]
    known = set(signatures)
    constants = [n for n, text in heads.items() if n not in known and _CONSTANT.match(text)]
    about = [n for signature in signatures for n in _find_comment(heads, signature)]
    explained = [n for n, text in heads.items() if _EXPLAINS.match(text)] if not signatures else []
    raised = [n for n, text in heads.items() if n not in known and _RAISED.match(text) and not _PASSED_ON.match(text)]
    types = [n for n in signatures if _HEADING.match(heads[n])]
    outer = [n for n in signatures if not heads[n][:1].isspace() and n not in set(types)]
    ordered = list(dict.fromkeys([*types, *outer, *signatures]))
    return [
        Facet(noun="signature", entries=whole_lines(units, ordered, within), rank=0, share=0.8),
        Facet(noun="constant", entries=whole_lines(units, constants, within), rank=2, share=0.4, told=False),
        Facet(noun="comment", entries=each(dict.fromkeys(about)), rank=3, share=0.4, told=False),
        Facet(noun="line that raises", entries=each(raised), rank=4, share=0.5, told=False),
        Facet(noun="comment", entries=each(explained), rank=5, share=0.6, told=False),
    ]


def is_import(line: str) -> bool:
    """Whether a line says what is used of elsewhere, which the rest of a file shows again."""
    return _IMPORT.match(line[:_LONGEST_IMPORT]) is not None


def _find_comment(heads: dict[int, str], signature: int) -> list[int]:
    """The first line of the comment above a signature, else of the docstring below it."""
    first = signature
    while _SAID.match(heads.get(first - 1, "")):
        first -= 1
    if first < signature:
        return [first]
    return [signature + 1] if _SAID.match(heads.get(signature + 1, "")) else []
