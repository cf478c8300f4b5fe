"""The project folder is found in the prompts that agents send."""

import json

import pytest

from mnemosyne.domain.wire.project import is_within, project_of

CODEX = "<environment_context>\n  <cwd>/home/ada/app</cwd>\n  <shell>bash</shell>\n</environment_context>"


@pytest.mark.parametrize(
    "system",
    [
        "You are an agent.\n<env>\nWorking directory: /home/ada/app\nPlatform: linux\n</env>",
        [{"type": "text", "text": "You are an agent."}, {"type": "text", "text": "  Working directory: /home/ada/app"}],
        "# Environment\n - Primary working directory: /home/ada/app  \n - Platform: linux",
    ],
)
def test_the_project_is_the_agents_working_directory(system: object) -> None:
    assert project_of(json.dumps({"system": system}).encode()) == "/home/ada/app"


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [{"role": "system", "content": "You are an agent.\nWorking directory: /home/ada/app"}]},
        {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Working directory: /home/ada/app"}]}
            ]
        },
        {"instructions": "Working directory: /home/ada/app", "input": "Hello."},
        {
            "instructions": "You are Codex.",
            "input": [
                {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
                {"role": "user", "content": [{"type": "input_text", "text": CODEX}]},
            ],
        },
    ],
)
def test_agents_of_other_dialects_name_the_folder_too(request_: object) -> None:
    assert project_of(json.dumps(request_).encode()) == "/home/ada/app"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"system": 3}',
        b'{"system": [3, {"text": 3}]}',
        b'{"system": "The current working directory: none"}',
        b'{"messages": [{"role": "user", "content": "Working directory: /tmp"}]}',
        b'{"input": [{"role": "user", "content": "I wrote <environment_context><cwd>/tmp</cwd>"}]}',
        b'{"input": 3, "messages": {"role": "system"}}',
    ],
)
def test_a_request_that_names_no_folder_has_no_project(body: bytes) -> None:
    assert project_of(body) is None


@pytest.mark.parametrize(
    ("project", "folder", "within"),
    [
        ("/home/ada/app", "/home/ada/app", True),
        ("/home/ada/app/", "/home/ada/app", True),
        ("/home/ada/app/web", "/home/ada/app", True),
        ("/home/ada/application", "/home/ada/app", False),
        ("/home/ada", "/home/ada/app", False),
        ("/home/ada", "/", True),
        (None, "/", False),
    ],
)
def test_a_folder_contains_the_projects_below_it(project: str | None, folder: str, within: bool) -> None:
    assert is_within(project, folder) == within
