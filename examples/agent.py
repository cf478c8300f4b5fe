"""A small agent on the `anthropic` SDK with Mnemosyne in its own process: no proxy, the log beside it.

    ANTHROPIC_API_KEY=… python examples/agent.py "which tests fail?" "fix the first one"

It answers one prompt after the other, may list and read files of this folder, and ends by asking its memory.
"""

import os
import sys
from pathlib import Path

import anthropic

import mnemosyne

MODEL = os.environ.get("AGENT_MODEL", "claude-sonnet-5")
BUDGET = 60_000  # tokens of context, whatever the conversation has grown to
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [
    {"name": "list_files", "description": "The names in a folder.", "input_schema": PATH},
    {"name": "read_file", "description": "The text of a file.", "input_schema": PATH},
]


def use_tool(name: str, path: str) -> str:
    """What a tool of ours gives, below this folder alone."""
    root, found = Path.cwd(), Path(path).resolve()
    if not found.is_relative_to(root):
        raise ValueError(f"{path} is not in {root}")
    return found.read_text() if name == "read_file" else "\n".join(sorted(each.name for each in found.iterdir()))


def ask(client: anthropic.Anthropic, session: mnemosyne.SyncSession) -> None:
    """One reply of the model, in as many requests as its memory takes."""
    context: mnemosyne.Context | None = session.context_for(MODEL, BUDGET)
    while context is not None:
        try:
            reply = client.messages.create(**context.request)
        except anthropic.APIStatusError as error:
            context = session.provider_fails(error.status_code, error.body)
            if context is None:
                raise
        else:
            context = session.assistant_says(reply)


def main(prompts: list[str]) -> None:
    client = anthropic.Anthropic()
    with mnemosyne.SyncSession(system="You help in this folder.", tools=TOOLS) as session:
        for prompt in prompts:
            session.user_says(prompt)
            ask(client, session)
            while session.open_calls:
                for call in [block for block in session.messages[-1]["content"] if block["type"] == "tool_use"]:
                    try:
                        session.tool_result(call["id"], use_tool(call["name"], call["input"]["path"]))
                    except (OSError, ValueError) as error:
                        session.tool_result(call["id"], str(error), is_error=True)
                ask(client, session)
            print("\n".join(b["text"] for b in session.messages[-1]["content"] if b["type"] == "text"))
        for passage in session.query(prompts[0]):
            print(f"[{passage.object_id}] {passage.text}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
