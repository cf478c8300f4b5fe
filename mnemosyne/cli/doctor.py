"""``mnemosyne doctor``."""

import os
import sys
from pathlib import Path

import attrs
import click

from mnemosyne.app.doctor import Circumstances, Finding, examine
from mnemosyne.cli.printing import fits_encoding, print_json, say
from mnemosyne.cli.settings import configuration, setting_options
from mnemosyne.errors import BadConfiguration
from mnemosyne.services.unstructuring import members

MARKS = {"good": "\u2713", "bad": "\u2717", "open": "\u2013"}
ASCII_MARKS = {"good": "ok", "bad": "NO", "open": "--"}
"""For terminals without Unicode."""


@click.command()
@setting_options()
@click.option("--ask-helper", is_flag=True, help="Send the helper model a short request, which it may bill.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
@click.pass_context
def doctor(ctx: click.Context, /, ask_helper: bool, as_json: bool, **options: object) -> None:
    """Check everything that Mnemosyne needs, and suggest a fix for each problem.

    \b
      mnemosyne doctor

    It changes nothing, and sends no credentials except the key of a helper model. The exit code is 1 if something is
    wrong.
    """
    found = []
    for check, finding in examine(attrs.evolve(_circumstances(options), asks_helper=ask_helper)):
        found.append({"check": check.name, **members(finding, "verdict text advice")})
        if not as_json:
            say(_line(check.name, finding))
    if as_json:
        print_json(found)
    ctx.exit(1 if any(each["verdict"] == "bad" for each in found) else 0)


def _circumstances(options: dict[str, object]) -> Circumstances:
    try:
        config, refusal = configuration(options), ""
    except BadConfiguration as error:
        config, refusal = None, str(error)
    return Circumstances(config, refusal, os.environ, Path.cwd())


def _line(name: str, finding: Finding) -> str:
    advice = f". {finding.advice[0].upper()}{finding.advice[1:]}." if finding.advice else ""
    marks = MARKS if fits_encoding("".join(MARKS.values())) else ASCII_MARKS
    encoding = sys.stdout.encoding or "ascii"
    text = f"{marks[finding.verdict]} {name}: {finding.text}{advice}"
    return text.encode(encoding, errors="replace").decode(encoding)
