"""``mnemosyne remember``: something that the next sessions are to know."""

from typing import Any

import click

from mnemosyne.cli.knowing import (
    kind_option,
    knowledge_options,
    moment,
    parse_time,
    print_report,
    scope_option,
    with_desk,
)
from mnemosyne.cli.reading import json_option
from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.services.knowledge import parse_member


@click.command()
@click.argument("text")
@kind_option
@scope_option
@click.option("--detail", default="", metavar="TEXT", help="More about it, shown to who asks for it alone.")
@click.option("--summary", default="", metavar="TEXT", help="A shorter line, told to sessions in place of the text.")
@click.option("--since", metavar="TIME", help="True from then on: a date, or 12h, 7d, 2w ago.  [default: now]")
@knowledge_options
@json_option
def remember(
    text: str,
    kind: str | None,
    scope: str | None,
    detail: str,
    summary: str,
    since: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Have the next sessions of this project know something, in a sentence; managed ones are told as they begin.

    Kinds of preference (profile, response-style, code-style, tooling, workflow, constraint) hold in all your projects
    with `--scope user`. `mnemosyne memory` lists, changes and forgets what is known. Keys and what stands between
    <private> and </private> are not kept.
    """
    draft = EntryDraft(
        kind=parse_member(EntryKind, kind or "fact", "kind"),
        content=text,
        source=EntrySource.USER,
        summary=summary,
        detail=detail,
        valid_from=parse_time(since),
    )
    done = with_desk(options, lambda desk, _: desk.remember(Scope(scope or "project"), draft, moment()))
    print_report(done, as_json=as_json)
