"""``mnemosyne hook``: the command that client plugins call."""

import os
import sys
from typing import TYPE_CHECKING

import click

from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.errors import MnemosyneError

if TYPE_CHECKING:
    from mnemosyne.app.hooks import HookEvent
    from mnemosyne.app.storage import Storage
    from mnemosyne.config import Config

LARGEST_INPUT = 8 * 1024 * 1024


@click.command()
@log_options(of_first_shard=True)
def hook(**options: object) -> None:
    """Answer a client's hook. The plugins in `integrations/` call it with the hook's input, as Claude Code passes it,
    on stdin.

    \b
      mnemosyne hook < input.json

    At SessionStart, it prints the saved facts for the model's context, unless a server manages the session.
    UserPromptSubmit sends the server the prompt's hash; SessionEnd asks it to close the session. It always exits with
    0 and reports problems on stderr.
    """
    from mnemosyne.app.hooks import parse_event, report

    try:
        config = configuration(options)
        event = parse_event(sys.stdin.buffer.read(LARGEST_INPUT))
        report(event, os.environ, config)
        answer = answer_event(event, config)
    except MnemosyneError as error:
        say(str(error), err=True)
    except Exception as error:
        say(f"The hook could not be answered: {type(error).__name__}.", err=True)
    else:
        if answer:
            say(answer)


def answer_event(event: "HookEvent", config: "Config") -> str:
    """The text for the model's context: at the start of a session the saved facts of its folder, unless a server adds
    them; else nothing.
    """
    if event.name != "SessionStart" or event.resumed:
        return ""
    from mnemosyne.app.hooks import is_managed
    from mnemosyne.cli.log_access import has_log, with_log

    if not has_log(config) or is_managed(os.environ, config):
        return ""
    from mnemosyne.app.knowledge import open_knowledge
    from mnemosyne.app.process import now
    from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
    from mnemosyne.times import render_day

    async def compose(storage: "Storage") -> str:
        knowledge = open_knowledge(KnowledgeStore(storage.events, storage.journal), config.tenant, event.folder)
        block = await knowledge.compose_block(event.prompt, now(), render_day)
        return "" if block is None else block.text

    return with_log(config, compose)
