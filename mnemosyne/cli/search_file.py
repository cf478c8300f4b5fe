"""Searching a file: what ``mnemosyne search --file`` does."""

import json
import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mnemosyne.cli.printing import progress_bar

if TYPE_CHECKING:
    from mnemosyne.adapters.embedding.conversation_index import Line
    from mnemosyne.domain.recall.retrieval import Hit

Parsed = TypeVar("Parsed")
Query = tuple[Hashable, str]

SHOWN = 100
"""Characters of a message that are shown to people."""

HINT = "; `mnemosyne model install` adds search by meaning"


class BadInput(click.ClickException):
    """A file that cannot be read as what it should be."""

    exit_code = 2


def search_file(file: Path, queries: Path, limit: int, as_json: bool, data_dir: Path) -> None:
    """Print the best messages of a conversation for each query. Raises BadInput."""
    lines = _read(file, _line, lambda line: line.id)
    asked = _read(queries, _query, None)
    found = _search(lines, asked, limit, data_dir)
    texts = {line.id: f"{line.role}: {line.text}" if line.role else line.text for line in lines}
    for (key, query), hits in zip(asked, found, strict=True):
        if as_json:
            results = [{"id": hit.key, "score": round(hit.score, 4)} for hit in hits]
            sys.stdout.write(json.dumps({"id": key, "results": results}, ensure_ascii=False) + "\n")
        else:
            click.secho(query, bold=True)
            for hit in hits:
                shown = " ".join(texts[hit.key].split())[:SHOWN]
                click.echo(f"  {hit.score:.2f}  {hit.key}  {shown}")


def _search(lines: "Sequence[Line]", asked: Sequence[Query], limit: int, data_dir: Path) -> "list[list[Hit[Hashable]]]":
    import os

    import trio

    from mnemosyne.adapters.embedding.conversation_index import index_conversation
    from mnemosyne.adapters.embedding.embedder import HashedLexical, open_embedder

    opened = open_embedder(data_dir, threads=min(os.cpu_count() or 1, 4))
    # Hashed words know nothing that words do not.
    embedder = None if isinstance(opened, HashedLexical) else opened
    click.echo(f"Searching with words{f' and {embedder.name}' if embedder else HINT}.", err=True)

    async def run() -> "list[list[Hit[Hashable]]]":
        with progress_bar("reading") as progress:
            index = await index_conversation(lines, embedder, progress)
        with progress_bar("searching") as progress:
            return await index.search([query for _, query in asked], limit, progress)

    return trio.run(run)


def _read(
    path: Path, parse: Callable[[dict[str, Any]], Parsed], key: Callable[[Parsed], Hashable] | None
) -> list[Parsed]:
    """The lines of a file, all of them or none; with a ``key``, no two of one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from None
    found: list[Parsed] = []
    places: dict[Hashable, int] = {}
    # Bytes, since text would be cut at every U+2028 as well.
    for number, raw in enumerate(data.splitlines(), 1):
        if not raw.strip():
            continue
        try:
            found.append(parse(_object(raw)))
            if key is not None and (first := places.setdefault(key(found[-1]), number)) != number:
                raise ValueError(f"line {first} has the same id, {key(found[-1])!r}")
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}, line {number}: {error}. Mend the line or take it out.") from None
    return found


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _line(value: dict[str, Any]) -> "Line":
    from mnemosyne.adapters.embedding.conversation_index import Line

    return Line(_id(value), _text(value, "role", ""), _text(value, "text"), _text(value, "time", ""))


def _query(value: dict[str, Any]) -> Query:
    return _id(value), _text(value, "text")


def _id(value: dict[str, Any]) -> Hashable:
    if not isinstance(key := value.get("id"), str | int):
        raise ValueError("a text or a number as its id is needed")
    return key


def _text(value: dict[str, Any], name: str, default: str | None = None) -> str:
    found = value.get(name, default)
    found = default if found is None else found
    if not isinstance(found, str):
        raise ValueError(f"its {name} is no text" if name in value else f"it has no {name}")
    return found
