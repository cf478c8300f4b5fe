"""``python -m mnemosyne_lab.provider``: the stand-in provider as a process of its own."""

import sys
from pathlib import Path

import click
import trio

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.provider.script import Script, load
from mnemosyne_lab.provider.server import open_standin

_EPILOG = """
\b
Point a client at it (any key will do):
  ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=any claude -p "run the tests"
  OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_API_KEY=any …
\b
A script in TOML. Rules are tried in order; `replies` is an agent's loop, one reply for each round of tool results:
  [[rules]]
  when = { lane = "main", prompt = "tests" }
  [[rules.replies]]
  content = [{ type = "tool_use", name = "Bash", input = { command = "ls" } }]
  [[rules.replies]]
  text = "All tests pass."
\b
An overloaded provider, twice, before it answers:
  [[rules]]
  times = 2
  reply = { failure = { status = 529, retry_after = 1 } }
"""


@click.command(epilog=_EPILOG, context_settings={"max_content_width": 110})
@click.option(
    "--port", default=0, show_default=True, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0: a free one."
)
@click.option(
    "--script", "path", type=click.Path(path_type=Path), help="Script file, .toml or JSON. Without: default replies."
)
@click.option("--lenient", is_flag=True, help="Answer requests that break a rule of the API; note the violation only.")
def main(port: int, path: Path | None, lenient: bool) -> None:
    """Play a provider on loopback, from a script, without a key or a network.

    It speaks the Anthropic Messages API, Chat Completions and Responses. It checks what the real APIs check (order of
    messages, tool results, cache markers, thinking signatures, sealed reasoning) and answers a violation with the API's
    own error. Prompt-cache usage is computed, not invented.
    """
    try:
        script = load(path) if path else Script()
    except BadConfiguration as problem:
        click.echo(f"standin: {problem}", err=True)
        sys.exit(2)
    try:
        trio.run(_run, script, port, not lenient)
    except OSError as problem:
        click.echo(f"standin: cannot listen on 127.0.0.1:{port}: {problem.strerror or problem}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


async def _run(script: Script, port: int, strict: bool) -> None:
    async with open_standin(script, strict=strict, port=port, keep=1000) as server:
        click.echo(f"standin listening on {server.url}")
        await trio.sleep_forever()


if __name__ == "__main__":
    main(prog_name="python -m mnemosyne_lab.provider")
