"""Derive a server's planning settings, budgets and models from the user's settings."""

from pathlib import Path
from urllib.parse import urlsplit

from mnemosyne.config import Config, upstreams_of
from mnemosyne.domain.cost.catalogue import catalogue_of, in_force, load_shipped, overlay, read_tables, use
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.budget import Budget, SpendingLimits
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.window.policies import ECONOMIC, PlugIn
from mnemosyne.errors import BadConfiguration


def settings_of(config: Config, plug_in: PlugIn | None = None) -> ServerSettings:
    """Return the planning settings, with the version of the operator's own policy. Raises BadConfiguration for an
    unknown tariff.
    """
    others = upstreams_of(config)
    _require_tariff("tariff", config.tariff)
    for upstream in others:
        _require_tariff(f"upstreams.{upstream.name}.tariff", upstream.tariff)
    return ServerSettings(
        window=config.manage_window,
        tool_budget=config.manage_tool_budget,
        cited=config.grounding != "free",
        strict=config.grounding == "strict",
        tariff=config.tariff,
        tell_repeats=config.tell_repeats,
        manages_small=config.manage_small,
        policy=config.policy,
        fidelity=FidelityMode(config.fidelity),
        policy_version=plug_in.version if plug_in is not None else "",
        restores=config.restores,
        choices=_choices_of(config),
        host=urlsplit(config.upstream).hostname or "",
        others=others,
    )


def _choices_of(config: Config) -> tuple[str, ...]:
    """The names that a request may choose: those that the operator lists; by default the server's own and cheaper
    ones.
    """
    if config.header_choices is not None:
        return config.header_choices
    return tuple(dict.fromkeys((ECONOMIC, config.policy, FidelityMode.THRIFTY.value, config.fidelity)))


def _require_tariff(setting: str, name: str | None) -> None:
    tariffs = in_force().tariffs
    if name is not None and name not in tariffs:
        raise BadConfiguration(f"{setting} = {name!r} is unknown; available: {', '.join(tariffs)}.")


def limits_of(config: Config) -> SpendingLimits:
    """Return the user's limits on cost."""

    def read(dollars: float | None) -> int | None:
        return None if dollars is None else round(dollars * NANODOLLARS)

    return SpendingLimits(
        session=read(config.session_budget_dollars),
        day=read(config.day_budget_dollars),
        hard=read(config.session_hard_limit_dollars),
        sources=config.sources,
    )


def helper_limits(config: Config) -> Budget:
    """Return the cost limits of the helper model."""
    return Budget(round(config.helper_budget_dollars_per_day * NANODOLLARS), config.helper_budget_share)


def use_models(path: Path | None) -> None:
    """Use the models of this file in addition to the shipped ones; None means only those. Raises BadConfiguration for a
    missing or invalid file.
    """
    tables = {} if path is None else read_tables(_read_models(path), str(path))
    use(catalogue_of(overlay(load_shipped(), tables), str(path or "that is shipped")))


def _read_models(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfiguration(f"The models file {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"The models file {path} is not UTF-8 text.") from None
