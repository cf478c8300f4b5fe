"""Parts of `docs/*.md` that are generated from the program (by cog)."""

from collections.abc import Iterator
from copy import copy

import click

from mnemosyne.app.metrics import METRICS
from mnemosyne.cli import main
from mnemosyne.cli.settings import CONFIG_HELP, LOG
from mnemosyne.config import SETTINGS
from mnemosyne.projections.catalog import ALL

WIDTH = 100


def commands_page() -> str:
    """The --help of every command, as Markdown, without the options that every command has. Raises LookupError if the
    commands of mnemosyne_lab are missing.
    """
    if "evaluate" not in main.places():
        raise LookupError("the commands of mnemosyne_lab are not installed: run make install")
    return "\n".join(
        f"## {ctx.command_path}\n\n```text\n{_help(ctx)}\n```\n" for ctx in _contexts(main, None) if ctx.parent
    )


def _help(ctx: click.Context) -> str:
    """The --help of a command without the options in OMITTED."""
    command = copy(ctx.command)
    command.params = [
        param for param in command.params if not OMITTED & {*param.opts, str(getattr(param, "help", None))}
    ]
    command.add_help_option = False
    return command.get_help(ctx)


OMITTED = frozenset(("--help-all", "--json", "The branch.", "A folder of the project.  [default: this one]"))
"""The page describes these options and -h once: by their name, or by their text if the name has several meanings."""


def log_options_table() -> str:
    """The options of every command that reads the log."""
    rows = [f"| `{setting.option}` | {setting.meaning} |" for setting in SETTINGS if setting.name in LOG]
    return "\n".join(["| option | meaning |", "|---|---|", *rows, f"| `--config` | {CONFIG_HELP} |"])


def settings_table() -> str:
    """Every setting, as a Markdown table."""
    rows = ["| in the file | option | variable | default | meaning |", "|---|---|---|---|---|"]
    for setting in SETTINGS:
        default = setting.default_text if setting.default is None else f"`{setting.default_text}`"
        rows.append(f"| `{setting.name}` | `{setting.option}` | `{setting.variable}` | {default} | {setting.meaning} |")
    return "\n".join(rows) + "\n"


def metrics_table() -> str:
    """The metrics, as a Markdown table."""
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |")
    return "\n".join(rows) + "\n"


def read_model_tables() -> str:
    """The tables of the read models, as Markdown tables, with the columns of the key in bold."""
    lines = []
    for projection in ALL:
        lines += [f"### {projection.name}\n", "| table | columns (the key first) |\n|---|---|"]
        for table in projection.tables:
            names = (f"**`{name}`**" if name in table.key else f"`{name}`" for name in table.all_columns)
            lines.append(f"| `{projection.table_of(table)}` | {', '.join(names)} |")
        lines.append("")
    return "\n".join(lines)


def _contexts(command: click.Command, parent: click.Context | None) -> Iterator[click.Context]:
    name = command.name if parent else "mnemosyne"
    ctx = click.Context(command, parent, name, terminal_width=WIDTH, max_content_width=WIDTH)
    # Only make_context applies the group's settings, such as -h; a context created here has click's defaults.
    ctx.help_option_names = ["-h", "--help"]
    yield ctx
    if isinstance(command, click.Group):
        for sub in command.list_commands(ctx):
            inner = command.get_command(ctx, sub)
            if inner is not None and not inner.hidden:
                yield from _contexts(inner, ctx)
