"""The command line: one module for each command. A module is imported only when its command runs, and its dependencies
are imported inside the command; `--help` imports none of them.
"""

import click

from mnemosyne import __version__
from mnemosyne.cli.group import CommandPlace, Program, Purpose, help_all_option

USE, LOOK, MEMORY, EVALUATE, OPERATE = Purpose

_PLACES = {
    "run": CommandPlace(USE, ".run:run", "Run a client, such as claude, through Mnemosyne."),
    "serve": CommandPlace(USE, ".serve:serve", "Run the proxy until it is stopped."),
    "open": CommandPlace(USE, ".open:open_pages", "Open the sessions in a browser."),
    "manage": CommandPlace(USE, ".manage:manage", "Manage a session that was only observed so far."),
    "off": CommandPlace(USE, ".manage:off", "Stop managing one session, or all."),
    "close": CommandPlace(USE, ".session_edits:close", "Close a session until its next turn."),
    "undo": CommandPlace(USE, ".session_edits:undo", "Undo the last change of a session."),
    "fork": CommandPlace(USE, ".fork:fork", "Start a new session from a turn of a recorded one."),
    "replay": CommandPlace(USE, ".replay:replay", "Run a client again on a recorded session, offline."),
    "doctor": CommandPlace(USE, ".doctor:doctor", "Check the installation and suggest fixes."),
    "config": CommandPlace(USE, ".config:config", "Show the settings and their sources; change one."),
    "statusline": CommandPlace(USE, ".statusline:statusline", "Print a session's status line.", is_rare=True),
    "hook": CommandPlace(USE, ".hook:hook", "Answer a client's hook, such as Claude Code's.", is_rare=True),
    "completion": CommandPlace(USE, ".completion:completion", "Print a shell's completion script.", is_rare=True),
    "sessions": CommandPlace(LOOK, ".sessions:sessions", "List the recorded sessions."),
    "rename": CommandPlace(LOOK, ".session_edits:rename", "Name a session."),
    "timeline": CommandPlace(LOOK, ".timeline:timeline", "Show a session turn by turn."),
    "context": CommandPlace(LOOK, ".context:context", "Show the content of a context window at a turn."),
    "diff": CommandPlace(LOOK, ".context:diff", "Show what changed between two turns."),
    "compare": CommandPlace(LOOK, ".compare:compare", "Show two runs of one task side by side."),
    "explain": CommandPlace(LOOK, ".explain:explain", "Explain what memory did at a turn, and why."),
    "branches": CommandPlace(LOOK, ".branches:branches", "List the context windows of a session."),
    "objects": CommandPlace(LOOK, ".objects:objects", "List the objects of a session."),
    "object": CommandPlace(LOOK, ".objects:object_command", "Show one object, its renditions and its history."),
    "search": CommandPlace(LOOK, ".search:search", "Search sessions by words and by meaning."),
    "ask": CommandPlace(LOOK, ".search:ask", "Answer a question from the content of a session."),
    "report": CommandPlace(LOOK, ".report:report", "Write the page of a session to a file."),
    "usage": CommandPlace(LOOK, ".accounts:usage", "Show tokens and cost by session, day or model."),
    "savings": CommandPlace(LOOK, ".accounts:savings", "Show how much managing saved or cost."),
    "checkpoint": CommandPlace(LOOK, ".checkpoint:checkpoint", "Name a turn, or list the names."),
    "sql": CommandPlace(LOOK, ".sql:sql", "Query the log in SQL."),
    "remember": CommandPlace(MEMORY, ".memory:remember", "Save a fact for future sessions."),
    "memory": CommandPlace(MEMORY, ".memory:memory", "List and change saved facts."),
    "pin": CommandPlace(MEMORY, ".session_edits:pin", "Pin an object, so that it is never evicted."),
    "unpin": CommandPlace(MEMORY, ".session_edits:unpin", "Unpin an object."),
    "mcp": CommandPlace(MEMORY, ".mcp:mcp", "Serve memory as MCP tools to any agent."),
    "model": CommandPlace(MEMORY, ".model:model", "Install the model for semantic search."),
    "index": CommandPlace(MEMORY, ".model:index", "Build or drop the approximate index.", is_rare=True),
    "verify": CommandPlace(EVALUATE, ".verify:verify", "Check every turn against its recorded hash."),
    "export": CommandPlace(OPERATE, ".transfer:export", "Write a session to a file."),
    "import": CommandPlace(OPERATE, ".transfer:import_command", "Read a session from a file."),
    "backup": CommandPlace(OPERATE, ".transfer:backup", "Write the whole log to a file."),
    "restore": CommandPlace(OPERATE, ".transfer:restore", "Restore a backup into an empty database."),
    "archive": CommandPlace(OPERATE, ".transfer:archive", "Move sessions to files outside the database."),
    "unarchive": CommandPlace(OPERATE, ".transfer:unarchive", "Move archived sessions back into the database."),
    "trash": CommandPlace(OPERATE, ".session_edits:trash", "Move a session or memory entry to the trash, or back."),
    "forget": CommandPlace(OPERATE, ".forget:forget", "Erase a session, or everything of a tenant."),
    "retain": CommandPlace(OPERATE, ".forget:retain", "Forget old sessions now.", is_rare=True),
    "du": CommandPlace(OPERATE, ".du:du", "Show the disk usage of each session."),
    "nodes": CommandPlace(OPERATE, ".projections:nodes", "Show the connected servers and workers.", is_rare=True),
    "worker": CommandPlace(OPERATE, ".serve:worker", "Maintain derived data without a server.", is_rare=True),
    "projections": CommandPlace(OPERATE, ".projections:projections", "Show the read models.", is_rare=True),
    "rebuild": CommandPlace(OPERATE, ".projections:rebuild", "Rebuild read models.", is_rare=True),
    "sql-reader": CommandPlace(OPERATE, ".sql:sql_reader", "Grant a database role read access.", is_rare=True),
}
"""Every command of the product, in the order of the help."""


@click.group(cls=Program, places=_PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mnemosyne")
@help_all_option("the rarely used commands")
def main() -> None:
    """Record what a coding agent sends to its model, and evict what it no longer needs.

    \b
      mnemosyne run -- claude       run a client through the proxy
      mnemosyne open                see what it sent, and what that cost
      mnemosyne run --manage -- claude

    If something does not work, `mnemosyne doctor` shows the cause and the fix.
    """
