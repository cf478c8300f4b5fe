"""``mnemosyne worker``."""

import click

from mnemosyne.cli.settings import configuration, setting_options


@click.command()
@setting_options
@click.option("--under-server", is_flag=True, hidden=True, help="For the server at the other end of stdin and stdout.")
def worker(under_server: bool, **options: object) -> None:
    """Keep what is derived from the log up to date, until it is told to stop: read models, and the index of objects
    with its vectors.

    `mnemosyne serve` starts a worker by itself and watches it; this is one without a server. One at a time keeps a
    database; the others wait until it ends. Without any, sessions go on all the same: only what is looked up is not
    fresh, and new summaries wait.

    SIGTERM or Ctrl-C stops it. It goes on from there when it starts again.
    """
    # Before the imports below, so that a bad setting is reported at once; what the file warns of, the server reports.
    config = configuration(options, warns=not under_server)
    import trio

    from mnemosyne.app.logs import start_logging
    from mnemosyne.app.process import new_id, now
    from mnemosyne.app.worker import run_worker

    start_logging(config.log_level, config.log_format, config.log_file)
    trio.run(run_worker, config, under_server, now, new_id)
