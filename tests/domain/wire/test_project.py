"""The project folder is found in the prompts that agents send."""

from collections.abc import Mapping
from typing import Any

import pytest

from mnemosyne.domain.wire.project import find_project, is_within

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
    assert find_project({"system": system}) == "/home/ada/app"


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
def test_agents_of_other_dialects_name_the_folder_too(request_: Mapping[str, Any]) -> None:
    assert find_project(request_) == "/home/ada/app"


@pytest.mark.parametrize(
    "request_",
    [
        {"system": 3},
        {"system": [3, {"text": 3}]},
        {"system": "The current working directory: none"},
        {"messages": [{"role": "user", "content": "Working directory: /tmp"}]},
        {"input": [{"role": "user", "content": "I wrote <environment_context><cwd>/tmp</cwd>"}]},
        {"input": 3, "messages": {"role": "system"}},
    ],
)
def test_a_request_that_names_no_folder_has_no_project(request_: Mapping[str, Any]) -> None:
    assert find_project(request_) is None


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
