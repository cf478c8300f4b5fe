"""Source code in any language: signatures, docstrings, and what is raised."""

import re

from mnemosyne.domain.summaries.extractive.way import Way

_SIGNATURE = (
    r"\s*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|pub(?:\([^)]*\))?|"
    r"unsafe|extern|inline|virtual|const|sealed|open|data|suspend|declare)\s+)*"
    r"(?:def|class|func|function\*?|fn|interface|trait|impl|struct|enum|type|module|namespace|package|fun|sub|record|object|"
    r"mod|macro_rules!|protocol|extension|CREATE|create)\s+[\w<(*$`\"]"
    r"|\s*(?:export\s+)?(?:const|let|var)\s+\w+\s*(?::[^=]+)?=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>"
    r"|\s*(?:public|private|protected|static)\s[\w<>\[\], ]+\("
    r"|[A-Za-z_][\w *&:<>]*\s[*&]?[\w:~]+\([^;]*\)\s*\{?$"
    r"|[A-Z][A-Z0-9_]{2,}\s*(?::[^=]+)?="
)

WAY = Way(
    name="code",
    signs=re.compile(
        r".*[;{}]\s*$|\s*(?:def|class|import|from|return|if|for|func|fn|use|const|let|var|package|public|private|@\w+|elif|"
        r"else|try|raise|with|async|export|type|#include|//|/\*|\*)\b|\s+\S.*[({\[,:)\]]\s*$|\s*[})\]]+[;,]?$|\s*//|"
        r"\s+#|#!|(?: {2,}|\t)[^-*\d\s]"
    ),
    share=0.45,
    structure=(
        (_SIGNATURE, 2.0),
        (r"\s*(?:@\w|#\[)", 0.4),
        (r"\s*(?:\"\"\"|'''|///|/\*\*|//!)\s*\w", 0.9),
        (r"\s*(?:raise|throw|panic!?|errors\.New|return fmt\.Errorf)\b", 0.8),
    ),
    frame=2.0,
    holds="what it defines: every signature",
    drops="the bodies of functions, partly",
    restore_for="the exact code: to edit it, or to follow its logic",
)
