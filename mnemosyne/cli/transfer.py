"""``mnemosyne export`` and ``mnemosyne import``: write a session to a file, and read it."""

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile

import click

from mnemosyne.app.storage import event_codec
from mnemosyne.cli.log_access import json_option, log_of, session_argument, with_log
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.private_files import private_file
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import bytes_text, plural
from mnemosyne.services.exporting import Importing, import_file, write_session


@click.command()
@session_argument
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file.  [default: standard output]"
)
@click.option("--redact", is_flag=True, help="Mask credentials in the content.")
@log_options()
@json_option
def export(session: str, output: Path | None, redact: bool, as_json: bool, **options: object) -> None:
    """Write a session with its whole content to a file of JSON lines, which `mnemosyne import` reads.

    \b
      mnemosyne export 319a -o session.jsonl --redact

    --redact masks everything in the shape of a credential: provider keys, tokens, private keys, passwords in URLs, and
    values after a word such as `password=`. It cannot detect other passwords, so check the file before you share it.
    """
    if as_json and output is None:
        raise click.UsageError("--json needs --output, because the session goes to standard output.")

    config = log_of(options)
    try:
        with nullcontext(sys.stdout.buffer) if output is None else private_file(output) as file:
            written = with_log(
                config, lambda storage: write_session(storage, session, file, event_codec(), redact=redact)
            )
    except OSError as error:
        if output is None:
            raise  # such as a closed pipe, which click handles
        raise BadConfiguration(f"{output} cannot be written: {error.strerror or error}.") from None
    if output is None:
        return
    if as_json:
        summary = {"id": str(written.session), "events": written.events, "bytes": written.bytes, "file": str(output)}
        print_json(summary | ({"masked": written.masked} if redact else {}))
    else:
        say(f"{plural(written.events, 'event')} of session {written.session}: {bytes_text(written.bytes)}")
        if redact:
            say(f"Credentials were masked in {plural(written.masked, 'place')}.")


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@log_options()
@json_option
def import_command(file: Path, as_json: bool, **options: object) -> None:
    """Read a session from a file that `mnemosyne export` wrote; `-` is standard input. The session keeps its id and is
    marked as imported.

    \b
      mnemosyne import session.jsonl

    The whole file is checked before anything is written. An existing session is not changed, unless the file continues
    it.
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
        say(f"session {imported.session} already exists; nothing was added")


@contextmanager
def _regular(file: Path) -> Iterator[Path]:
    """The file, or a private copy of standard input, because the import reads it twice."""
    if str(file) != "-":
        yield file
        return
    with NamedTemporaryFile(prefix="mnemosyne-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)
