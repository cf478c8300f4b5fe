"""Generates the section on tables in `docs/projections.md` from the projections."""

from collections.abc import Iterator, Sequence

from mnemosyne.projections.projection import Projection, Table


def page(projections: Sequence[Projection]) -> str:
    """Return every table as Markdown."""
    return "\n".join(line for projection in projections for line in _of(projection))


def _of(projection: Projection) -> Iterator[str]:
    yield f"### {projection.name}\n"
    yield "| table | columns (the key first) |\n|---|---|"
    for table in projection.tables:
        yield f"| `{projection.table_of(table)}` | {_columns(table)} |"
    yield ""


def _columns(table: Table) -> str:
    return ", ".join(f"**`{name}`**" if name in table.key else f"`{name}`" for name in table.all_columns)
