r"""An agent on the vendor's own library, run where that is installed; it prints the replies as JSON.

python openai_agent.py BASE_URL {streamed|whole} TURNS [--memory NAME] [--folder FOLDER] [--restore]

Each turn is a prompt, a call of its tool with a long result, and an answer; every third turn calls the memory tool
NAME instead of giving an answer. The agent logs its reads and keeps its history in FOLDER; a later run continues
from there. With ``--restore``, a call of memory_restore replaces the first answer.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai

Json = dict[str, Any]

TOOL: Json = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look into a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"enum": ["a.py", "b.py", "c.py"]}},
            "required": ["path"],
        },
    },
}

SYSTEM = "You are an agent that looks into files and says what the session's window is made of. " * 6


def result_of(turn: int) -> str:
    """The tool's result: lines that differ from turn to turn."""
    return "\n".join(
        f"line {number} of turn {turn}: the value of the session is {number * turn}" for number in range(60)
    )


def complete(client: openai.OpenAI, streamed: bool, messages: list[Json], tool: str | None) -> Json:
    """One completion."""
    asked: Json = {
        "model": "tiny",
        "messages": messages,
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": tool}} if tool else "none",
        "max_tokens": 40,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 3,
    }
    if not streamed:
        whole: Json = client.chat.completions.create(**asked).to_dict()
        return whole
    return put_together(client.chat.completions.create(**asked, stream=True))


def put_together(chunks: Iterable[Any]) -> Json:
    """The completion of these chunks. A call's name counts once: llama-cpp-python repeats it in every piece."""
    message: Json = {"content": "", "tool_calls": []}
    choice: Json = {"message": message, "logprobs": {"content": []}}
    for chunk in chunks:
        for each in chunk.to_dict()["choices"]:
            delta = each["delta"]
            message["content"] += delta.get("content") or ""
            message |= {key: value for key, value in delta.items() if key == "function_call" and value}
            for piece in delta.get("tool_calls") or ():
                if len(message["tool_calls"]) <= piece["index"]:
                    message["tool_calls"].append({**piece, "function": {**piece["function"], "arguments": ""}})
                message["tool_calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
            choice["logprobs"]["content"] += (each.get("logprobs") or {}).get("content") or []
            choice["finish_reason"] = each.get("finish_reason") or choice.get("finish_reason")
    return {"choices": [choice]}


def write(line: Json) -> None:
    """Write one line of output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(told: argparse.Namespace) -> None:
    """Run the turns, and print each completion on a line of its own, or the error."""
    client = openai.OpenAI(base_url=told.url, api_key="a-dummy-key", max_retries=0)
    kept = told.folder / "history.json" if told.folder else None
    messages: list[Json] = [{"role": "system", "content": SYSTEM}]
    if kept is not None and kept.exists():
        messages = json.loads(kept.read_text())
    first = 1 + sum(each["role"] == "user" for each in messages)
    for turn in range(first, first + told.turns):
        messages.append({"role": "user", "content": f"What is in the window of turn {turn}?"})
        back = "memory_restore" if told.restore and turn == first else None
        for tool in ("look", back or (told.memory if turn % 3 == 0 else None)):
            try:
                reply = complete(client, told.how == "streamed", messages, tool)
            except openai.APIError as error:
                write({"turn": turn, "error": str(error)})
                return
            write({"turn": turn, **reply})
            message = reply["choices"][0]["message"]
            calls = message.get("tool_calls") or []
            said = {"role": "assistant", "content": message.get("content") or ""}
            messages.append({**said, "tool_calls": calls} if calls else said)
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": result_of(turn)} for call in calls]
            if told.folder and calls:
                with (told.folder / "looked.txt").open("a") as looked:
                    looked.write(f"{turn} {calls[0]['function']['name']}\n")
    if kept is not None:
        kept.write_text(json.dumps(messages))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("how", choices=["streamed", "whole"])
    parser.add_argument("turns", type=int)
    parser.add_argument("--memory")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--restore", action="store_true")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
