"""The command line. One file a command, which is read when that command is wanted; and what a command needs is imported
when it runs, so that `--help` is quick.
"""

import click

from mnemosyne import __version__
from mnemosyne.cli.group import Commands, Places

_READING = {
    "sessions": "sessions:sessions",
    "branches": "sessions:branches",
    "context": "context:context",
    "diff": "diff:diff",
    "checkpoint": "checkpoint:checkpoint",
    "verify": "verify:verify",
    "export": "transfer:export",
    "import": "transfer:import_command",
    "backup": "backup:backup",
    "restore": "backup:restore",
    "archive": "archive:archive",
    "unarchive": "archive:unarchive",
    "du": "du:du",
    "forget": "forget:forget",
    "retain": "forget:retain",
}

_READ_MODELS = {
    "timeline": "timeline:timeline",
    "usage": "usage:usage",
    "savings": "savings:savings",
    "report": "report:report",
    "projections": "projections:projections",
    "rebuild": "projections:rebuild",
    "sql": "sql:sql",
    "sql-reader": "sql:sql_reader",
}

_MEMORY = {
    "objects": "objects:objects",
    "object": "objects:object_command",
    "explain": "explain:explain",
    "pin": "pins:pin",
    "unpin": "pins:unpin",
    "remember": "remember:remember",
    "memory": "memory:memory",
    "mcp": "mcp:mcp",
    "hook": "hook:hook",
}

_PLACES = {
    "serve": "serve:serve",
    "run": "run:run",
    "open": "open:open_pages",
    "statusline": "statusline:statusline",
    "off": "off:off",
    "worker": "worker:worker",
    "nodes": "nodes:nodes",
    "demo": "demo:demo",
    **_READING,
    **_READ_MODELS,
    **_MEMORY,
    "ask": "ask:ask",
    "search": "search:search",
    "replay": "replay:replay",
    "evaluate": "evaluate:evaluate",
    "what-if": "what_if:what_if",
    "trial": "trial:trial",
    "model": "model:model",
    "index": "index:index",
    "doctor": "doctor:doctor",
    "config": "config:config",
    "completion": "completion:completion",
}
"""Every command, in the order of the help: the module in this package and what it is called there."""


@click.group(cls=Commands, commands=Places(_PLACES), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mnemosyne")
def main() -> None:
    """Manage a coding agent's context window the way an operating system manages memory.

    Mnemosyne stands between your agent and its provider. To work with it, start your agent through it:

    \b
      mnemosyne run -- claude
      mnemosyne run -- opencode

    or keep a server running and point any client at it:

    \b
      mnemosyne serve
      export ANTHROPIC_BASE_URL=http://127.0.0.1:8787

    If something does not work, `mnemosyne doctor` says what and what to do.
    """
