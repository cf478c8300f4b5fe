"""``mnemosyne worker``."""

import click

from mnemosyne.cli.settings import configuration, setting_options


@click.command()
@setting_options
@click.option("--under-server", is_flag=True, hidden=True, help="For the server at the other end of stdin and stdout.")
def worker(under_server: bool, **options: object) -> None:
    """Keep the data derived from the log up to date until stopped: the read models, and the index of objects with its
    vectors.

    `mnemosyne serve` starts and supervises its own worker; this command runs one without a server. One worker at a time
    is active for a database; the others are on standby. Without a worker, sessions still work, but searches and reports
    lag behind, and new summaries are delayed.

    SIGTERM or Ctrl-C stops it. After a restart it continues where it stopped.
    """
    # Before the imports below, to report a bad setting quickly; the server reports the warnings of the file.
    config = configuration(options, warns=not under_server)
    import trio

    from mnemosyne.app.logs import start_logging
    from mnemosyne.app.process import new_id, now
    from mnemosyne.app.worker import run_worker

    start_logging(config.log_level, config.log_format, config.log_file)
    trio.run(run_worker, config, under_server, now, new_id)
