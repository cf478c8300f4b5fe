"""Base classes of all commands: lazy import, and errors as one sentence on stderr with a non-zero exit code."""

import atexit
import gc
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import click

from mnemosyne.errors import BadOption, MnemosyneError, leaves

F = TypeVar("F", bound=Callable[..., object])


class _Misused(click.ClickException):
    exit_code = 2


RARELY = 20_000
"""The garbage collector's threshold for a command: importing creates many objects, but no garbage."""


class Purpose(StrEnum):
    """The headings of the list of commands."""

    USE = "Use"
    LOOK = "Look"
    MEMORY = "Memory"
    EVALUATE = "Evaluate"
    OPERATE = "Operate"


class CommandPlace(NamedTuple):
    """Where the help lists a command; its import address, ``module:name`` or, in this package, ``.module:name``; and
    its summary. Rarely used commands are listed by --help-all only.
    """

    purpose: Purpose
    address: str
    summary: str
    is_rare: bool = False


PLUGINS = "mnemosyne.commands"
"""The group of entry points by which other packages add commands: each is a mapping of names to ``CommandPlace``."""


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
    """A group whose commands are imported when they are needed; listing them imports none. Commands of other packages
    are looked up only to list all, or for an unknown name: reading the installed entry points takes some milliseconds.
    """

    def __init__(self, *args: Any, places: Mapping[str, CommandPlace], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._places = dict(places)
        self._has_plugins = False

    def places(self) -> Mapping[str, CommandPlace]:
        """The place of each command, by name."""
        if not self._has_plugins:
            from importlib.metadata import entry_points

            self._has_plugins = True
            for plugin in entry_points(group=PLUGINS):
                self._places = plugin.load() | self._places
        return self._places

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        return list(self.places())

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name) or self.places().get(cmd_name)
        if place is None:
            return None
        if cmd_name not in self.commands:
            module, _, attribute = place.address.partition(":")
            command = getattr(import_module(module, __package__), attribute)
            assert isinstance(command, click.Command)
            command.short_help = place.summary
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = [(name, place) for name, place in self.places().items() if shows_all(ctx) or not place.is_rare]
        width = max(len(name) for name, _ in listed)  # one width for all parts
        for purpose in Purpose:
            with formatter.section(purpose.value):
                chosen = [(name, place) for name, place in listed if place.purpose is purpose]
                formatter.write_dl([(name.ljust(width), place.summary) for name, place in chosen])


# Help in two lengths


def shows_all(ctx: click.Context) -> bool:
    """Whether the help has every command and every option."""
    return bool(ctx.meta.get(__name__))


def _show_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        from mnemosyne.cli.printing import say

        say(ctx.get_help())
        ctx.exit()


def help_all_option(what: str) -> Callable[[F], F]:
    """Add --help-all, which also shows ``what`` --help omits, as the last option before --help."""
    text = f"Also show {what}, and exit."
    add = click.option("--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help=text)

    def decorate(command: F) -> F:
        options = add(command).__dict__["__click_params__"]  # in reverse order
        options.insert(0, options.pop())
        return command

    return decorate


class RareOption(click.Option):
    """An option that only --help-all shows."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if shows_all(ctx) else None


def _make_exception(sentence: str, errors: Sequence[BaseException]) -> click.ClickException:
    """The exception that ends the program: exit code 2 for a bad command line, else 1."""
    from mnemosyne.terminal import harmless

    kind = _Misused if all(isinstance(error, BadOption) for error in errors) else click.ClickException
    return kind(harmless(sentence))
