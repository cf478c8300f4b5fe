"""Which project a session works in: the folder that coding agents name in their system prompt.

Claude Code writes ``Working directory: /home/ada/app`` there, newer versions ``Primary working directory: …``, opencode
the former.
"""

import json
import re

_NAMED = re.compile(r"^[ \t-]*(?:Primary w|W)orking directory:[ \t]*(.+?)[ \t]*$", re.MULTILINE)


def project_of(body: bytes) -> str | None:
    """The folder that a request's system prompt names; None where it names none."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    system = request.get("system") if isinstance(request, dict) else None
    blocks = system if isinstance(system, list) else [{"text": system}]
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    found = _NAMED.search("\n".join(text for text in texts if isinstance(text, str)))
    return found[1] if found else None


def is_within(project: str | None, folder: str) -> bool:
    """Whether a project is this folder, or in it."""
    return project is not None and f"{project.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
