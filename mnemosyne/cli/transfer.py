"""``mnemosyne export`` and ``mnemosyne import``: a session in a file."""

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import click

from mnemosyne.app.storage import event_codec
from mnemosyne.cli.printing import bytes_text, print_json, progress_bar, say
from mnemosyne.cli.private_files import private_file
from mnemosyne.cli.reading import json_option, log_of, session_argument, with_log
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import plural
from mnemosyne.services.exporting import Importing, import_file, write_session


@click.command()
@session_argument
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file.  [default: standard output]"
)
@click.option("--redact", is_flag=True, help="Mask the credentials that stand in what was said.")
@log_options()
@json_option
def export(session: str, output: Path | None, redact: bool, as_json: bool, **options: object) -> None:
    """Write a session to a file of JSON lines, with everything that was said in it. `mnemosyne import` reads it.

    A key that stands in a prompt, in a file that was read or in a command's output goes into the file with it. With
    --redact, what has the shape of a credential is masked, a `*` for each byte: keys of providers, tokens, private
    keys, passwords in URLs, and what stands behind a word like `password=`. A password that nothing gives away is not
    found, so look before you hand the file on.

    With --json and --output, what was written is summed up as JSON.
    """
    if as_json and output is None:
        raise click.UsageError("--json needs --output: standard output is the session's.")

    config = log_of(options)
    if output is None:
        with_log(
            config,
            lambda storage: write_session(storage, session, sys.stdout.buffer, event_codec(), redact=redact),
        )
        return
    try:
        with private_file(output) as file:
            written = with_log(
                config, lambda storage: write_session(storage, session, file, event_codec(), redact=redact)
            )
    except OSError as error:
        raise BadConfiguration(f"{output} cannot be written: {error.strerror or error}.") from None
    if as_json:
        told = {"id": str(written.session), "events": written.events, "bytes": written.bytes, "file": str(output)}
        print_json(told | ({"masked": written.masked} if redact else {}))
    else:
        say(f"{plural(written.events, 'event')} of session {written.session}: {bytes_text(written.bytes)}")
        if redact:
            say(f"Credentials were masked in {plural(written.masked, 'place')}.")


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@log_options()
@json_option
def import_command(file: Path, as_json: bool, **options: object) -> None:
    """Read a session from a file that `mnemosyne export` wrote; `-` is standard input. It keeps its id.

    The whole file is checked before anything is written. A session that is here already is left alone; only where the
    file goes on from what is here, the rest is added. Wherever it is shown, the session is marked as imported: who
    said what and when, and what it cost, is the file's account. It must be the tenant's own; --tenant names another.
    """
    config = configuration(options)
    importing = Importing(config.tenant, now_us(), secrets.token_hex(8))
    with _regular(file) as path, progress_bar("import") as progress:
        imported = with_log(config, lambda storage: import_file(storage, path, event_codec(), importing, progress))
    if as_json:
        print_json({"id": str(imported.session), "events": imported.events, "added": imported.added})
    elif imported.added:
        say(f"session {imported.session}: {plural(imported.added, 'event')} added")
    else:
        say(f"session {imported.session} is here already; nothing was added")


@contextmanager
def _regular(file: Path) -> Iterator[Path]:
    """The file, or a private copy of standard input: a session is checked whole before it is read again."""
    if str(file) != "-":
        yield file
        return
    with NamedTemporaryFile(prefix="mnemosyne-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)
