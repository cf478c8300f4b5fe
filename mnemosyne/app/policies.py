"""Load the policy that the settings file names as MODULE:NAME.

The module is imported from the installed packages or from the folder of the settings file, unless other users can write
to that folder.
"""

import importlib
import os
import stat
import sys
from pathlib import Path
from typing import Any

from mnemosyne.config import Config
from mnemosyne.domain.window.policies import PlugIn
from mnemosyne.errors import BadConfiguration


def load_policy(config: Config) -> PlugIn | None:
    """The operator's own policy; None if a built-in one is set. Raises BadConfiguration with the reason."""
    if ":" not in config.policy:
        return None
    assert config.file is not None  # only the file may name a module
    folder = config.file.parent
    searched = _is_written_by_us_alone(folder)
    if searched and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        planner, version = import_object(config.policy)
        if not callable(planner) or isinstance(planner, type):
            raise ValueError("it is not a planner (`docs/internals/policies.md` shows one).")
    except ValueError as reason:
        where = f"put it into {folder}" if searched else f"let no other user write to {folder}, which is not searched"
        raise BadConfiguration(
            f"policy = {config.policy} in {config.file}: {reason} Install the module, or {where}; "
            "`policy = economic` is the built-in one."
        ) from None
    return PlugIn(config.policy, version, planner)


def _is_written_by_us_alone(folder: Path) -> bool:
    """Whether only the server's user and root can change the content of a folder."""
    status = folder.stat()
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def import_object(place: str) -> tuple[Any, str]:
    """The object at MODULE:NAME and its version, which is its own or its module's. Raises ValueError with the
    reason.
    """
    module, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{module!r} cannot be imported: {error}.") from None
    except Exception as error:  # whatever the module itself does wrong
        raise ValueError(f"{module!r} fails when it is imported: {render_error(error)}.") from None
    value = getattr(found, name, None)
    if value is None:
        raise ValueError(f"there is no {name!r} in {module!r}.")
    version = getattr(value, "version", None) or getattr(found, "__version__", "")
    return value, str(version)[:MOST_VERSION]


MOST_VERSION = 60
"""Characters of a version."""


def render_error(error: Exception) -> str:
    """The error's type, message, and the file and line that raised it."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    where = f" ({traceback.tb_frame.f_code.co_filename}, line {traceback.tb_lineno})" if traceback is not None else ""
    return f"{type(error).__name__}: {error}{where}"
