"""How commands report errors: in one sentence on stderr, with an exit code that is not 0."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from mnemosyne.errors import BadOption, MnemosyneError


class _Misused(click.ClickException):
    exit_code = 2


class Commands(click.Group):
    """A group that lists its commands in the order of their importance, and turns our errors into sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MnemosyneError as error:
            raise _told(str(error), [error]) from None
        except BaseExceptionGroup as group:
            # A nursery wraps what its tasks raise. A bug among them deserves its traceback.
            errors = list(_leaves(group))
            if not all(isinstance(error, MnemosyneError) for error in errors):
                raise
            raise _told(" ".join(dict.fromkeys(map(str, errors))), errors) from None


def _told(sentence: str, errors: Sequence[BaseException]) -> click.ClickException:
    """What ends the program: with 2 if its command line cannot be used, with 1 if what it asks for cannot be done."""
    return (
        _Misused(sentence) if all(isinstance(error, BadOption) for error in errors) else click.ClickException(sentence)
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
