"""SIGHUP: the settings are read again, and what can change while requests run does. The rest waits for a new start,
which is said.
"""

import logging
import os
import signal
from collections.abc import Callable

import attrs
import trio

from mnemosyne.app.logs import set_level
from mnemosyne.app.models_file import use_models
from mnemosyne.app.settings import settings_of
from mnemosyne.config import SETTINGS, Config, list_settings, models_path
from mnemosyne.domain.cost.catalogue import in_force, use
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import BadConfiguration
from mnemosyne.http.gateway import Gateway

log = logging.getLogger(__name__)

RELOADED = ("log_level", "mode", "models_file")
"""What changes while requests run: what is said in the log, what becomes of new conversations, prices and models."""


@attrs.define
class Reloader:
    """Changes a running server. ``config`` holds the settings in force, ``load`` reads them again, ``shown`` is what
    the server tells of them. ``restart_worker`` has its worker begin anew.
    """

    config: Config
    load: Callable[[], Config]
    gateway: Gateway
    shown: dict[str, str]
    restart_worker: Callable[[], None]

    def reload(self) -> None:
        """Do so. Settings that cannot be used change nothing."""
        before = in_force()
        try:
            found = self.load()
            self._use_models(found)
        except BadConfiguration as error:
            log.error("The settings stay as they are: %s", error)
            return
        if found.warning is not None:
            log.warning("%s", found.warning)
        different = [each.name for each in SETTINGS if getattr(found, each.name) != getattr(self.config, each.name)]
        self.config = attrs.evolve(self.config, **{name: getattr(found, name) for name in RELOADED})
        set_level(found.log_level)
        self.gateway.mode = Mode(found.mode)
        self.shown.update(list_settings(self.config))
        changed = [name for name in different if name in RELOADED]
        changed += ["prices and models"] if in_force().digest != before.digest else []
        log.warning("The settings were read again; what changed: %s.", ", ".join(changed) or "nothing")
        waiting = [name for name in different if name not in RELOADED]
        if waiting:
            log.warning("Start the server anew for what else changed: %s.", ", ".join(waiting))
        else:
            self.restart_worker()  # it reads the same file, and must not be ahead of us

    def _use_models(self, found: Config) -> None:
        before = in_force()
        use_models(models_path(found))
        try:
            settings_of(attrs.evolve(found, tariff=self.config.tariff))
        except BadConfiguration:
            use(before)
            raise


async def reload_on_hangup(reload: Callable[[], None]) -> None:
    """Reload at each SIGHUP. The one that says that our terminal was closed ends us, as it would without us; unless it
    is ignored, as under nohup.
    """
    ends_with_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            if ends_with_terminal and not _has_terminal():
                os.kill(os.getpid(), signal.SIGTERM)
                return
            reload()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
