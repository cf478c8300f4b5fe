"""The command line. One file a command, which is read when that command is wanted; and what a command needs is imported
when it runs; `--help` reads none of them.
"""

import click

from mnemosyne import __version__
from mnemosyne.cli.group import CommandPlace, Places, Program

_READING = {
    "sessions": CommandPlace(".sessions:sessions", "List the recorded sessions."),
    "branches": CommandPlace(".branches:branches", "List the branches of a session: its context windows."),
    "context": CommandPlace(".context:context", "Show what was in a context window at a turn."),
    "diff": CommandPlace(".diff:diff", "Show what changed between two turns."),
    "checkpoint": CommandPlace(".checkpoint:checkpoint", "Give a turn a name, or list the names."),
    "fork": CommandPlace(".fork:fork", "Go on from any turn of a session, as one of its own."),
    "verify": CommandPlace(".verify:verify", "Rebuild every turn and check it against its recorded hash."),
    "export": CommandPlace(".transfer:export", "Write a session to a file."),
    "import": CommandPlace(".transfer:import_command", "Read a session from a file."),
    "backup": CommandPlace(".backup:backup", "Write the whole log to a file."),
    "restore": CommandPlace(".backup:restore", "Read the whole log from such a file into an empty database."),
    "upgrade-database": CommandPlace(
        ".upgrade_database:upgrade_database", "Carry the log to a newer major version of PostgreSQL."
    ),
    "archive": CommandPlace(".archive:archive", "Let what was said in sessions lie in files."),
    "unarchive": CommandPlace(".archive:unarchive", "Bring archived sessions back into the database."),
    "du": CommandPlace(".du:du", "Show what is stored, and how much of it."),
    "forget": CommandPlace(".forget:forget", "Erase what was said in a session, or all of a tenant."),
    "retain": CommandPlace(".forget:retain", "Forget old sessions, as retain_days and retain_bytes say."),
}

_READ_MODELS = {
    "timeline": CommandPlace(".timeline:timeline", "Show what happened in a session, turn by turn."),
    "usage": CommandPlace(".usage:usage", "Show tokens and money by session, day or model."),
    "savings": CommandPlace(".savings:savings", "Show what managing saved or cost."),
    "report": CommandPlace(".report:report", "Show a session's context and money over its turns."),
    "projections": CommandPlace(".projections:projections", "Show how the read models stand."),
    "rebuild": CommandPlace(".projections:rebuild", "Make read models anew from the log."),
    "sql": CommandPlace(".sql:sql", "Ask the log a question in SQL."),
    "sql-reader": CommandPlace(".sql:sql_reader", "Let a database role read the views of a tenant."),
}

_MEMORY = {
    "objects": CommandPlace(".objects:objects", "Show the objects that a session remembers."),
    "object": CommandPlace(
        ".objects:object_command", "Show one object: its renditions, what they lack, and its history."
    ),
    "explain": CommandPlace(".explain:explain", "Say what memory did at a turn, and why."),
    "pin": CommandPlace(".pins:pin", "Keep an object in the window as it is."),
    "unpin": CommandPlace(".pins:unpin", "Let a pinned object go again."),
    "remember": CommandPlace(".memory:remember", "Have the next sessions know something."),
    "memory": CommandPlace(".memory:memory", "See and change what is known beyond sessions."),
    "mcp": CommandPlace(".mcp:mcp", "Offer memory as tools to any agent that speaks MCP."),
    "hook": CommandPlace(".hook:hook", "Answer a hook of a client, such as Claude Code's."),
}

_PLACES = {
    "serve": CommandPlace(".serve:serve", "Run the proxy until it is told to stop."),
    "run": CommandPlace(".run:run", "Run a client, such as claude, through Mnemosyne."),
    "open": CommandPlace(".open:open_pages", "See the sessions in a browser."),
    "statusline": CommandPlace(".statusline:statusline", "One line about a session, for a client's status line."),
    "off": CommandPlace(".off:off", "Stop managing a session, or all."),
    "worker": CommandPlace(".worker:worker", "Keep read models and the index, without a server."),
    "nodes": CommandPlace(".nodes:nodes", "Show the servers and workers that share the database."),
    **_READING,
    **_READ_MODELS,
    **_MEMORY,
    "ask": CommandPlace(".ask:ask", "Ask a question of what a session remembers."),
    "search": CommandPlace(".search:search", "Find what a session remembers, or messages of a conversation."),
    "replay": CommandPlace(
        ".replay:replay", "Feed recorded sessions through the application, or a log to today's code."
    ),
    "model": CommandPlace(
        ".model:model", "Install the model that search by meaning needs, or see whether it is there."
    ),
    "index": CommandPlace(".index:index", "Make searching all sessions at once faster, at a price."),
    "doctor": CommandPlace(".doctor:doctor", "Check what Mnemosyne needs and say what to do."),
    "config": CommandPlace(".config:config", "Show every setting and where its value comes from; change one."),
    "completion": CommandPlace(".completion:completion", "Print the script for completion in your shell."),
}
"""Every command of the product, in the order of the help."""


@click.group(cls=Program, commands=Places(_PLACES), context_settings={"help_option_names": ["-h", "--help"]})
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
