"""Proxies and certificate authorities of the environment: usable ones are used, the others reported."""

import inspect
import ssl
from pathlib import Path

import httpcore2
import pytest
import trustme

from mnemosyne.adapters.outbound import ADDING, choose_proxy, open_client, read_authorities

UPSTREAM = "https://api.provider.example"
HTTP = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": HTTP}, HTTP),
        ({"https_proxy": HTTP, "HTTPS_PROXY": "http://other.example:1"}, HTTP),
        ({"all_proxy": HTTP}, HTTP),
        ({"HTTPS_PROXY": "proxy.example:3128"}, HTTP),
        ({"HTTPS_PROXY": "https://me:word@proxy.example"}, "https://me:word@proxy.example"),
        ({"HTTP_PROXY": HTTP}, None),
        ({"https_proxy": "", "HTTPS_PROXY": HTTP}, None),
        ({"HTTPS_PROXY": HTTP, "ALL_PROXY": "socks5://127.0.0.1:7890"}, HTTP),
        ({"HTTPS_PROXY": HTTP, "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": HTTP, "NO_PROXY": "other.example, .provider.example"}, None),
        ({"HTTPS_PROXY": HTTP, "no_proxy": "provider.example:8443"}, HTTP),
        ({"HTTPS_PROXY": HTTP, "NO_PROXY": "ovider.example"}, HTTP),
    ],
)
def test_environment_variables_choose_the_proxy(environ: dict[str, str], proxy: str | None) -> None:
    choice = choose_proxy(UPSTREAM, environ)
    assert (choice.url, choice.ignored) == (proxy, ())


@pytest.mark.parametrize(
    ("address", "entry", "is_excepted"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "11.0.0.0/8", False),
        ("[fd00::7]", "fd00::/8", True),
        ("[fd00::7]", "[fd00::7]", True),
    ],
)
def test_no_proxy_takes_addresses_and_networks(address: str, entry: str, is_excepted: bool) -> None:
    choice = choose_proxy(f"https://{address}:444", {"HTTPS_PROXY": HTTP, "NO_PROXY": entry})
    assert (choice.url is None) == is_excepted


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("socks5://127.0.0.1:7890", "socks5 proxies are not supported"),
        ("socks5h://me:s3cret@127.0.0.1:7890", "socks5h proxies are not supported"),
        ("socks4://127.0.0.1:7890", "socks4 proxies are not supported"),
        ("ftp://127.0.0.1", "ftp proxies are not supported"),
        ("http://proxy.example:s3cret", "it is not a URL such as http://HOST:PORT"),
        ("http://", "it names no host"),
        ("http://[::1", "it is not a URL"),
        (":::", "it is not a URL"),
    ],
)
def test_an_unusable_proxy_is_reported_and_the_next_one_is_used(value: str, why: str) -> None:
    for bad, good in (("ALL_PROXY", "all_proxy"), ("https_proxy", "HTTPS_PROXY"), ("HTTPS_PROXY", "ALL_PROXY")):
        alone = choose_proxy(UPSTREAM, {bad: value})
        assert alone.url is None
        assert alone.ignored[0].startswith(f"{bad} is ignored: {why}")
        assert alone.ignored[1] == f"No proxy is used for {UPSTREAM}; name one with HTTPS_PROXY."
        assert "s3cret" not in "".join(alone.ignored)
        assert choose_proxy(UPSTREAM, {bad: value, good: HTTP}).url == HTTP


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_no_proxy_is_used_for_loopback(host: str) -> None:
    assert choose_proxy(f"https://{host}:1", {"ALL_PROXY": "socks5://127.0.0.1:7890"}) == choose_proxy(UPSTREAM, {})


@pytest.fixture(autouse=True)
def system_context_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests add authorities to it."""
    monkeypatch.setattr(httpcore2, "default_ssl_context", inspect.unwrap(httpcore2.default_ssl_context))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The PEM file of an authority that no system trusts."""
    path = tmp_path / "root.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


def certificates(context: ssl.SSLContext) -> int:
    return context.cert_store_stats()["x509_ca"]


@pytest.mark.parametrize("name", ADDING)
def test_authorities_of_other_programs_are_added_to_the_system_s(name: str, root: Path) -> None:
    system = read_authorities(None, {})
    found = read_authorities(None, {name: str(root)})
    assert certificates(found.context) == certificates(system.context) + 1
    assert found.names == ("the system's", str(root))


def test_ssl_cert_file_replaces_the_system_s_authorities(root: Path) -> None:
    found = read_authorities(None, {"SSL_CERT_FILE": str(root)})
    assert (certificates(found.context), found.names, found.ignored) == (1, (str(root),), ())


def test_a_file_that_several_variables_name_is_read_once(root: Path) -> None:
    assert read_authorities(None, dict.fromkeys(("SSL_CERT_FILE", *ADDING), str(root))).names == (str(root),)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"])
@pytest.mark.parametrize("kind", ["missing", "empty", "no certificate", "device"])
def test_unreadable_authorities_are_reported_and_the_others_are_used(
    name: str, kind: str, tmp_path: Path, root: Path
) -> None:
    path = tmp_path / "bad.pem"
    if kind == "device":
        path = Path("/dev/null")
    elif kind != "missing":
        path.write_text("" if kind == "empty" else "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    other = "REQUESTS_CA_BUNDLE" if name == "NODE_EXTRA_CA_CERTS" else "NODE_EXTRA_CA_CERTS"
    found = read_authorities(None, {name: str(path), other: str(root)})
    assert found.names == ("the system's", str(root))
    (sentence,) = found.ignored
    assert sentence.startswith(f"{name} = {path} is ignored: ")


async def test_a_client_opens_with_any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:7890")
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent.pem")
    client, ignored = open_client(UPSTREAM)
    await client.aclose()
    assert [sentence.partition(" is ")[0] for sentence in ignored] == [
        "ALL_PROXY",
        "No proxy",
        "SSL_CERT_FILE = /nonexistent.pem",
    ]
