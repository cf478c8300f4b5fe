"""A request chooses only what the operator lists, and a window no larger than the server's."""

import attrs
import pytest

from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.window.request_settings import choose

SERVER = ServerSettings(
    window=100_000,
    policy="plans:rolling",
    policy_version="2",
    choices=("economic", "zones", "thrifty"),
    fidelity=FidelityMode.GRADED,
)


def test_settings_are_the_server_s_without_a_header() -> None:
    assert choose(SERVER, [("user-agent", "x"), ("x-mnemosyne-mode", "manage")]) is SERVER


def test_a_request_chooses_listed_names_and_a_smaller_window() -> None:
    headers = [("X-Mnemosyne-Window", " 60000 "), ("x-mnemosyne-policy", "Zones"), ("x-mnemosyne-fidelity", "thrifty")]
    headers.append(("x-mnemosyne-restores", "0"))
    assert choose(SERVER, headers) == attrs.evolve(
        SERVER,
        window=60_000,
        policy="zones",
        policy_version="",
        fidelity=FidelityMode.THRIFTY,
        faults=0,
        chosen=("window", "faults", "policy", "fidelity"),
    )


def test_a_request_chooses_a_grounding_at_least_as_strict_as_the_server_s() -> None:
    cited = attrs.evolve(SERVER, cited=True)
    for server, name, grounding in ((SERVER, "Strict", "strict"), (SERVER, "cited", "cited"), (cited, "free", "cited")):
        found = choose(server, [("x-mnemosyne-grounding", name)])
        assert (found.grounding, bool(found.refused), len(found.chosen)) == (grounding, name == "free", name != "free")


def test_a_session_s_own_grounding_replaces_the_server_s_and_bounds_that_of_a_request() -> None:
    server = attrs.evolve(SERVER, cited=True, strict=True)
    for own, name, grounding in (("", None, "strict"), ("free", None, "free"), ("cited", "free", "cited")):
        headers = [] if name is None else [("x-mnemosyne-grounding", name)]
        assert choose(server, headers, own).grounding == grounding


@pytest.mark.parametrize(
    ("header", "value", "why"),
    [
        ("window", "100001", "a number of tokens from 8000 to 100000, this server's own, is needed"),
        ("window", "7999", "a number of tokens from 8000 to 100000, this server's own, is needed"),
        ("window", "-5", "a number of tokens from 8000 to 100000, this server's own, is needed"),
        ("window", "١٢", "a number of tokens from 8000 to 100000, this server's own, is needed"),
        ("restores", "4", "a number from 0 to 3, this server's own, is needed"),
        ("restores", "00", "a number from 0 to 3, this server's own, is needed"),
        ("policy", "os:system", "one of economic, zones is needed"),
        ("policy", "plans:rolling", "one of economic, zones is needed"),
        ("fidelity", "graded", "one of thrifty is needed"),
        ("fidelity", "sk-ant-secret", "one of thrifty is needed"),
    ],
)
def test_anything_else_is_refused_without_repeating_it(header: str, value: str, why: str) -> None:
    refused = f"x-mnemosyne-{header}: {why}"
    assert choose(SERVER, [(f"x-mnemosyne-{header}", value)]) == attrs.evolve(SERVER, refused=(refused,))


def test_without_a_window_of_its_own_a_server_allows_its_usual_target() -> None:
    server = attrs.evolve(SERVER, window=None, choices=())
    assert choose(server, [("x-mnemosyne-window", "160000")]).window == 160_000
    assert choose(server, [("x-mnemosyne-window", "160001")]).window is None
    assert choose(attrs.evolve(server, window=6_000), [("x-mnemosyne-window", "6000")]).chosen == ("window",)
    assert choose(server, [("x-mnemosyne-policy", "economic")]).refused == ("x-mnemosyne-policy: not allowed",)
