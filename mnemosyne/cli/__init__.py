"""The command line. One file a command; what a command needs is imported when it runs, so that `--help` is quick."""

import click

from mnemosyne import __version__
from mnemosyne.cli.completion import completion
from mnemosyne.cli.config import config
from mnemosyne.cli.context import context
from mnemosyne.cli.demo import demo
from mnemosyne.cli.diff import diff
from mnemosyne.cli.doctor import doctor
from mnemosyne.cli.du import du
from mnemosyne.cli.evaluate import evaluate
from mnemosyne.cli.explain import explain
from mnemosyne.cli.forget import forget, retain
from mnemosyne.cli.group import Commands
from mnemosyne.cli.index import index
from mnemosyne.cli.model import model
from mnemosyne.cli.objects import object_command, objects
from mnemosyne.cli.off import off
from mnemosyne.cli.pins import pin, unpin
from mnemosyne.cli.projections import projections, rebuild
from mnemosyne.cli.replay import replay
from mnemosyne.cli.report import report
from mnemosyne.cli.run import run
from mnemosyne.cli.savings import savings
from mnemosyne.cli.search import search
from mnemosyne.cli.serve import serve
from mnemosyne.cli.sessions import branches, sessions
from mnemosyne.cli.timeline import timeline
from mnemosyne.cli.transfer import export, import_command
from mnemosyne.cli.usage import usage
from mnemosyne.cli.verify import verify


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mnemosyne")
def main() -> None:
    """Manage a coding agent's context window the way an operating system manages memory.

    Mnemosyne stands between your agent and the Messages API. To work with it, start your agent through it:

    \b
      mnemosyne run -- claude
      mnemosyne run -- opencode

    or keep a server running and point any client at it:

    \b
      mnemosyne serve
      export ANTHROPIC_BASE_URL=http://127.0.0.1:8787

    If something does not work, `mnemosyne doctor` says what and what to do.
    """


READING = (sessions, branches, context, diff, verify, export, import_command, du, forget, retain)

READ_MODELS = (timeline, usage, savings, report, projections, rebuild)

MEMORY = (objects, object_command, explain, pin, unpin)

for command in (
    serve,
    run,
    off,
    demo,
    *READING,
    *READ_MODELS,
    *MEMORY,
    search,
    replay,
    evaluate,
    model,
    index,
    doctor,
    config,
    completion,
):
    main.add_command(command)
