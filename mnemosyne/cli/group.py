"""Base classes of all commands: lazy import, and errors as one sentence on stderr with a non-zero exit code."""

import atexit
import gc
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from mnemosyne.errors import BadOption, MnemosyneError, leaves


class _Misused(click.ClickException):
    exit_code = 2


RARELY = 20_000
"""The garbage collector's threshold for a command: importing creates many objects, but no garbage."""


class CommandPlace(NamedTuple):
    """The import address of a command, ``module:name`` or, in this package, ``.module:name``; and its summary."""

    address: str
    summary: str


PLUGINS = "mnemosyne.commands"
"""The group of entry points by which other packages add commands: each is a mapping of names to ``CommandPlace``."""


class Places(MutableMapping[str, click.Command]):
    """Commands by name, each imported on first access. Commands of other packages are looked up only to list all
    commands, or for an unknown name: reading the installed entry points takes some milliseconds.
    """

    def __init__(self, places: Mapping[str, CommandPlace]) -> None:
        self._places = dict(places)
        self._read: dict[str, click.Command] = {}
        self._has_plugins = False

    def _add_plugins(self) -> None:
        if not self._has_plugins:
            from importlib.metadata import entry_points

            self._has_plugins = True
            for plugin in entry_points(group=PLUGINS):
                self._places |= {name: place for name, place in plugin.load().items() if name not in self._places}

    def summaries(self) -> list[tuple[str, str]]:
        """The name and the summary of each command, without importing any."""
        self._add_plugins()
        return [(name, place.summary) for name, place in self._places.items()]

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._places:
            self._add_plugins()
        if name not in self._read:
            place = self._places[name]
            module, _, attribute = place.address.partition(":")
            found = getattr(import_module(module, __package__), attribute)
            assert isinstance(found, click.Command)
            found.short_help = place.summary
            self._read[name] = found
        return self._read[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name] = CommandPlace("", command.get_short_help_str())
        self._read[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __iter__(self) -> Iterator[str]:
        self._add_plugins()
        return iter(self._places)

    def __len__(self) -> int:
        self._add_plugins()
        return len(self._places)


class Commands(click.Group):
    """A group that lists its commands in definition order and turns MnemosyneError into a sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def main(self, *args: Any, **settings: Any) -> Any:
        # Garbage collection during imports takes a fifth of the time of a short command, and as much again at exit,
        # where it is useless.
        gc.set_threshold(RARELY)
        atexit.register(gc.freeze)
        return super().main(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MnemosyneError as error:
            raise _make_exception(str(error), [error]) from None
        except BaseExceptionGroup as group:
            # A nursery wraps the exceptions of its tasks. A bug among them keeps its traceback.
            errors = list(leaves(group))
            if not all(isinstance(error, MnemosyneError) for error in errors):
                raise
            raise _make_exception(" ".join(dict.fromkeys(map(str, errors))), errors) from None


class Program(Commands):
    """A group whose commands are imported lazily; listing them imports none."""

    commands: Places

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.commands.summaries())


def _make_exception(sentence: str, errors: Sequence[BaseException]) -> click.ClickException:
    """The exception that ends the program: exit code 2 for a bad command line, else 1."""
    from mnemosyne.terminal import harmless

    kind = _Misused if all(isinstance(error, BadOption) for error in errors) else click.ClickException
    return kind(harmless(sentence))
