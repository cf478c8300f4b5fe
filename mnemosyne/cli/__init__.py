"""The command line: one module for each command. A module is imported only when its command runs, and its dependencies
are imported inside the command; `--help` imports none of them.
"""

import click

from mnemosyne import __version__
from mnemosyne.cli.group import CommandPlace, Places, Program

_READING = {
    "sessions": CommandPlace(".sessions:sessions", "List the recorded sessions."),
    "branches": CommandPlace(".branches:branches", "List the branches of a session: its context windows."),
    "context": CommandPlace(".context:context", "Show the content of a context window at a turn."),
    "diff": CommandPlace(".diff:diff", "Show what changed between two turns."),
    "checkpoint": CommandPlace(".checkpoint:checkpoint", "Name a turn, or list the names."),
    "fork": CommandPlace(".fork:fork", "Start a new session from an earlier point of a recorded one."),
    "verify": CommandPlace(".verify:verify", "Rebuild every turn and check it against its recorded hash."),
    "export": CommandPlace(".transfer:export", "Write a session to a file."),
    "import": CommandPlace(".transfer:import_command", "Read a session from a file."),
    "backup": CommandPlace(".backup:backup", "Write the whole log to a file."),
    "restore": CommandPlace(".backup:restore", "Restore a backup into an empty database."),
    "upgrade-database": CommandPlace(
        ".upgrade_database:upgrade_database", "Migrate the log to a newer major version of PostgreSQL."
    ),
    "archive": CommandPlace(".archive:archive", "Move the content of sessions to files outside the database."),
    "unarchive": CommandPlace(".archive:unarchive", "Move archived content back into the database."),
    "du": CommandPlace(".du:du", "Show the disk usage of each session."),
    "forget": CommandPlace(".forget:forget", "Erase the content of a session, or of a whole tenant."),
    "retain": CommandPlace(".forget:retain", "Forget old sessions according to retain_days and retain_bytes."),
}

_READ_MODELS = {
    "timeline": CommandPlace(".timeline:timeline", "Show what happened in a session, turn by turn."),
    "usage": CommandPlace(".usage:usage", "Show tokens and cost by session, day or model."),
    "savings": CommandPlace(".savings:savings", "Show how much managing saved or cost."),
    "report": CommandPlace(".report:report", "Show a session's context and cost over its turns."),
    "projections": CommandPlace(".projections:projections", "Show the state of the read models."),
    "rebuild": CommandPlace(".projections:rebuild", "Rebuild read models."),
    "sql": CommandPlace(".sql:sql", "Query the log in SQL."),
    "sql-reader": CommandPlace(".sql:sql_reader", "Grant a database role read access to a tenant's views."),
}

_MEMORY = {
    "objects": CommandPlace(".objects:objects", "List the objects of a session."),
    "object": CommandPlace(
        ".objects:object_command", "Show one object: its renditions, their losses, and its history."
    ),
    "explain": CommandPlace(".explain:explain", "Explain what memory did at a turn, and why."),
    "pin": CommandPlace(".objects:pin", "Pin an object, so that it is never evicted."),
    "unpin": CommandPlace(".objects:unpin", "Unpin an object."),
    "remember": CommandPlace(".memory:remember", "Save a fact for future sessions."),
    "memory": CommandPlace(".memory:memory", "List and change saved facts."),
    "mcp": CommandPlace(".mcp:mcp", "Serve memory as MCP tools to any agent."),
    "hook": CommandPlace(".hook:hook", "Answer a client's hook, such as Claude Code's."),
}

_PLACES = {
    "serve": CommandPlace(".serve:serve", "Run the proxy until it is stopped."),
    "run": CommandPlace(".run:run", "Run a client, such as claude, through Mnemosyne."),
    "open": CommandPlace(".open:open_pages", "Open the sessions in a browser."),
    "statusline": CommandPlace(".statusline:statusline", "Print a client's status line for a session."),
    "off": CommandPlace(".off:off", "Stop managing one session, or all."),
    "worker": CommandPlace(".serve:worker", "Maintain read models and the index without a server."),
    "nodes": CommandPlace(".nodes:nodes", "Show the servers and workers that share the database."),
    **_READING,
    **_READ_MODELS,
    **_MEMORY,
    "ask": CommandPlace(".ask:ask", "Answer a question from the content of a session."),
    "search": CommandPlace(".search:search", "Search sessions, or the messages of a conversation file."),
    "replay": CommandPlace(".replay:replay", "Replay recorded sessions, or re-run the decisions of a stored one."),
    "model": CommandPlace(".model:model", "Install the embedding model for semantic search, or show its state."),
    "index": CommandPlace(".model:index", "Build or drop the approximate index for searching all sessions."),
    "doctor": CommandPlace(".doctor:doctor", "Check the installation and suggest fixes."),
    "config": CommandPlace(".config:config", "Show every setting and the source of its value; change one."),
    "completion": CommandPlace(".completion:completion", "Print the completion script for your shell."),
}
"""Every command of the product, in the order of the help."""


@click.group(cls=Program, commands=Places(_PLACES), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mnemosyne")
def main() -> None:
    """Manage a coding agent's context window the way an operating system manages memory.

    Mnemosyne is a proxy between your agent and its provider. To use it, start your agent through it:

    \b
      mnemosyne run -- claude
      mnemosyne run -- opencode

    or keep a server running and point any client at it:

    \b
      mnemosyne serve
      export ANTHROPIC_BASE_URL=http://127.0.0.1:8787

    If something does not work, `mnemosyne doctor` shows the cause and the fix.
    """
