"""Searching a file: what ``mnemosyne search --file`` does."""

import sys
from pathlib import Path

from mnemosyne.cli.printing import progress_bar, say
from mnemosyne.terminal import json_text

SHOWN = 100
"""Characters of a message that are shown to people."""

HINT = "; `mnemosyne model install` adds search by meaning"


def search_file(file: Path, queries: Path, limit: int, as_json: bool, data_dir: Path) -> None:
    """Print the best messages of a conversation for each query. Raises BadOption."""
    import trio

    from mnemosyne.app.conversations import open_model, search_conversation
    from mnemosyne.services.conversation_files import read_lines, read_queries

    lines, asked = read_lines(file), read_queries(queries)
    model = open_model(data_dir)
    say(f"Searching with words{f' and {model.name}' if model else HINT}.", err=True)
    found = trio.run(search_conversation, lines, asked, model, limit, progress_bar)
    texts = {line.id: f"{line.role}: {line.text}" if line.role else line.text for line in lines}
    for query, hits in zip(asked, found, strict=True):
        if as_json:
            results = [{"id": hit.key, "score": round(hit.score, 4)} for hit in hits]
            sys.stdout.write(json_text({"id": query.id, "results": results}) + "\n")
        else:
            say(query.text, bold=True)
            for hit in hits:
                shown = " ".join(texts[hit.key].split())[:SHOWN]
                say(f"  {hit.score:.2f}  {hit.key}  {shown}")
