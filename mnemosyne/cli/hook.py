"""``mnemosyne hook``: the command that client plugins call."""

import os
import sys
from typing import TYPE_CHECKING

import click

from mnemosyne.cli.log_access import has_log, with_log
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.errors import MnemosyneError

if TYPE_CHECKING:
    from mnemosyne.app.hooks import HookEvent
    from mnemosyne.app.storage import Storage
    from mnemosyne.config import Config

LARGEST_INPUT = 8 * 1024 * 1024


@click.command()
@log_options()
def hook(**options: object) -> None:
    """Answer a client's hook: read the hook's input from stdin, as Claude Code passes it, and print the text to add to
    the model's context. The plugins in `integrations/` call this command.

    \b
      SessionStart       the saved facts, as `mnemosyne memory block` shows them
      UserPromptSubmit   nothing; the session is registered
      PreToolUse         nothing; the files are kept (`mnemosyne run --record-worktree`)

    The command registers the session with the server as one of the memory's owner, whichever credential the client
    uses. If a server manages the session, the command prints nothing, because the server adds and learns facts itself.
    It always exits with 0, so that it never blocks the client; it reports problems on stderr.
    """
    from mnemosyne.app.hooks import is_managed, parse_event, present

    try:
        config = configuration(options)
        event = parse_event(sys.stdin.buffer.read(LARGEST_INPUT))
        if event.name == "PreToolUse":
            from mnemosyne.app.hooks import keep_before_call

            keep_before_call(event)
            return
        present(event, os.environ, config)
        answer = "" if is_managed(os.environ, config) else answer_event(event, config)
    except MnemosyneError as error:
        say(str(error), err=True)
    except Exception as error:
        say(f"The hook could not be answered: {type(error).__name__}.", err=True)
    else:
        if answer:
            say(answer)


def answer_event(event: "HookEvent", config: "Config") -> str:
    """The text for the model's context: at the start of a session the saved facts of its folder, else nothing."""
    if event.name != "SessionStart" or event.resumed or not has_log(config):
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
