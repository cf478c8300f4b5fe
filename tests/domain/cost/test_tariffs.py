"""The weights of tokens by tariff, and how a request's tariff is recognized."""

from fractions import Fraction

import pytest

from mnemosyne.domain.cost.catalogue import find_tariff_name, in_force, price_of, tariff_of
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.cost.tariffs import FOREVER, LIFETIME, PaidIn
from mnemosyne.domain.wire.identity import Credential
from mnemosyne.upstreams import is_at_home
from tests.not_none import not_none

TOKENS = Tokens(input=1, output=10, read=100, write_5m=1_000, write_1h=10_000)
HOME, AWAY = "127.0.0.1", "api.anthropic.com"


@pytest.mark.parametrize("model", in_force().prices)
def test_the_weights_for_an_api_key_follow_from_the_price_list(model: str) -> None:
    price = not_none(price_of(model))
    small = Tokens(input=1, output=10, read=100, write_5m=1_000, write_1h=10_000)
    assert tariff_of("api").weights(price).equivalents(small) == price.equivalents(small)


def test_a_quota_counts_reads_like_other_input_and_dollars_are_a_second_unit() -> None:
    tariff = tariff_of("subscription")
    assert tariff.units == (PaidIn.QUOTA, PaidIn.DOLLARS)
    assert tariff.weights(Price(4_000, 20_000, read=200)).equivalents(TOKENS) == 1 + 50 + 100 + 1_000 + 10_000


def test_writes_cost_as_much_as_input_for_older_openai_models() -> None:
    old, new = (tariff_of(name).weights(Price(1_000, 8_000, read=100)) for name in ("openai-before-5.6", "openai"))
    assert (old.write_5m, new.write_5m) == (Fraction(1), Fraction(5, 4))
    assert old.read == new.read == Fraction(1, 10)


def test_a_local_cache_never_expires_and_its_reads_are_free() -> None:
    local = tariff_of("local")
    assert local.life(hour=False) == FOREVER > tariff_of("openai").life(hour=False) > LIFETIME["5m"]
    assert local.weights(Price(1_000, 8_000, read=100)).equivalents(TOKENS) == 11_001
    assert [tariff_of("api").life(hour=hour) for hour in (False, True)] == [LIFETIME["5m"], LIFETIME["1h"]]


@pytest.mark.parametrize(
    ("credential", "hour", "host", "model", "tariff"),
    [
        ("key", False, AWAY, "claude-opus-5-5", "api"),
        ("key", True, AWAY, "claude-opus-5-5", "api"),
        ("oauth", True, AWAY, "claude-opus-5-5", "subscription"),
        ("bearer", True, "gateway.example", "claude-opus-5-5", "subscription"),
        ("bearer", False, "gateway.example", "claude-opus-5-5", "api"),
        (None, False, AWAY, None, "api"),
        ("key", False, HOME, "claude-opus-5-5", "api"),
        ("key", False, HOME, "claude-opus-9", "api"),
        ("bearer", False, HOME, "qwen3-coder:30b", "local"),
        (None, False, "192.168.1.7", "gemma-4", "local"),
        ("bearer", False, "models.example", "qwen3-coder:30b", "api"),
        ("bearer", False, "api.openai.com", "gpt-5.6", "openai"),
        ("bearer", False, "gateway.example", "openai/gpt-5.10-mini", "openai"),
        ("bearer", False, "api.openai.com", "gpt-5.1-codex", "openai-before-5.6"),
        ("bearer", False, "api.openai.com", "gpt-5", "openai-before-5.6"),
        ("bearer", False, "api.openai.com", "o3-mini", "openai-before-5.6"),
        ("bearer", False, "api.openai.com", "gpt-6", "openai"),
        ("bearer", False, "api.openai.com", "gpt-6.2-sol", "openai"),
        ("bearer", False, HOME, "gpt-6.2-sol-2026-11-19", "openai"),
        ("bearer", False, HOME, "gpt-7-nova", "openai"),
        ("bearer", False, HOME, "gpt-oss:20b", "local"),
        (None, False, "10.0.0.9", "openai/gpt-oss-120b", "local"),
        (None, False, "box.local", "gpt-oss-20b-GGUF", "local"),
        (None, False, HOME, "gpt-j-6b", "local"),
        (None, False, HOME, "gpt-4-x-alpaca", "local"),
        (None, False, HOME, "o1-open-7b", "local"),
        (None, False, HOME, "claude2-alpaca:13b", "local"),
        ("bearer", False, "models.example", "gpt-oss-120b", "api"),
        ("key", False, HOME, "us.anthropic.claude-sonnet-5-20260101-v1:0", "api"),
    ],
)
def test_the_tariff_depends_on_credential_markers_host_and_model(
    credential: Credential | None, hour: bool, host: str, model: str | None, tariff: str
) -> None:
    assert find_tariff_name(credential, hour=hour, host=host, model=model) == tariff


def test_a_tariff_that_is_no_longer_in_the_table_is_that_of_an_api_key() -> None:
    assert tariff_of("of last year") == tariff_of("api")


@pytest.mark.parametrize(
    ("host", "is_home"),
    [
        *(
            (host, True)
            for host in ("localhost", "[::1]", "10.1.2.3", "fe80::1", "box.local", "ollama", "gpu.internal")
        ),
        *((host, False) for host in ("8.8.8.8", "local.example", "")),
    ],
)
def test_only_hosts_in_private_networks_are_local(host: str, is_home: bool) -> None:
    assert is_at_home(host) is is_home
