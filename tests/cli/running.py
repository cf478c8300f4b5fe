"""Running commands in this process, and reading what they print."""

from click.testing import CliRunner, Result

from mnemosyne.cli import main

SESSION = "2510e41f-e2bc-56a3-8d5f-6cd9f1b8ce50"
"""The session of the golden log."""


def run(*arguments: str, code: int = 0, stdin: bytes | None = None) -> Result:
    """Run a command to its end."""
    result = CliRunner().invoke(main, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def words(text: str) -> list[list[str]]:
    return [each.split() for each in text.splitlines()]
