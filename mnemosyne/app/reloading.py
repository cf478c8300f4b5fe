"""Reload the settings on SIGHUP: apply those that can change at runtime, and report those that need a restart."""

import logging
import os
import signal
from collections.abc import Callable

import attrs
import trio

from mnemosyne.actors.spending_guard import SpendingGuard
from mnemosyne.app.logs import set_level
from mnemosyne.app.settings import limits_of, settings_of, use_models
from mnemosyne.config import BUDGETS, SETTINGS, Config, list_settings, models_path
from mnemosyne.domain.cost.catalogue import in_force, use
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import BadConfiguration
from mnemosyne.http.gateway import Gateway

log = logging.getLogger(__name__)

RELOADED = ("log_level", "mode", "models_file", *BUDGETS)
"""The settings that can change at runtime."""


@attrs.define
class Reloader:
    """Reloads a running server. ``config`` has the settings in force, ``load`` reads them again, ``shown`` are the
    settings on the status page. ``restart_worker`` restarts the worker.
    """

    config: Config
    load: Callable[[], Config]
    gateway: Gateway
    guard: SpendingGuard
    shown: dict[str, str]
    restart_worker: Callable[[], None]

    def reload(self) -> None:
        """Reload the settings. Invalid settings change nothing."""
        before = in_force()
        try:
            loaded = self.load()
            self._use_models(loaded)
        except BadConfiguration as error:
            log.error("The settings stay as they are: %s", error)
            return
        if loaded.warning is not None:
            log.warning("%s", loaded.warning)
        names = [setting.name for setting in SETTINGS]
        different = [name for name in names if getattr(loaded, name) != getattr(self.config, name)]
        self.config = attrs.evolve(self.config, **{name: getattr(loaded, name) for name in RELOADED})
        set_level(loaded.log_level)
        self.gateway.mode = Mode(loaded.mode)
        self.guard.limits = limits_of(loaded)
        self.shown.update(list_settings(self.config))
        changed = [name for name in different if name in RELOADED]
        changed += ["prices and models"] if in_force().digest != before.digest else []
        log.warning("The settings were reloaded; changed: %s.", ", ".join(changed) or "nothing")
        waiting = [name for name in different if name not in RELOADED]
        if waiting:
            log.warning("Restart the server to apply the other changes: %s.", ", ".join(waiting))
        else:
            self.restart_worker()  # it reads the same file, and must not be ahead of the server

    def _use_models(self, loaded: Config) -> None:
        before = in_force()
        use_models(models_path(loaded))
        try:
            settings_of(attrs.evolve(loaded, tariff=self.config.tariff))
        except BadConfiguration:
            use(before)
            raise


async def reload_on_hangup(reload: Callable[[], None]) -> None:
    """Reload at each SIGHUP. A SIGHUP because the terminal was closed ends the process, as by default, unless it is
    ignored as under nohup.
    """
    ends_with_terminal = ends_at_hangup()
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            if ends_with_terminal and not has_terminal():
                os.kill(os.getpid(), signal.SIGTERM)
                return
            reload()


def ends_at_hangup() -> bool:
    """Whether this process ends when its terminal is closed: it has one, and does not ignore SIGHUP as under nohup."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and has_terminal()


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
