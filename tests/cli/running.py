"""Run commands in this process, and read their output."""

import json
from typing import Any

from click.testing import CliRunner, Result

from mnemosyne.cli import main

SESSION = "2510e41f-e2bc-56a3-8d5f-6cd9f1b8ce50"
"""The session of the golden log."""


def run(*arguments: str, code: int = 0, stdin: bytes | None = None, **environ: str) -> Result:
    """Run a command to its end, which must have this exit code."""
    result = CliRunner().invoke(main, list(arguments), input=stdin, env=environ, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: str, code: int = 0) -> Any:
    """The output of a command with --json."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]
