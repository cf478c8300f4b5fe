"""How often the provider's verdict on its cache agrees with ours, for ``mnemosyne usage --verdicts``."""

from typing import Any

from mnemosyne.cli.printing import say
from mnemosyne.services.cache_verdicts import Agreement, JudgedRequest
from mnemosyne.services.unstructuring import members


def agreement_as_json(found: Agreement) -> dict[str, Any]:
    differing = [{"session": str(stream), **_request_as_json(each)} for stream, each in found.differing]
    return {"agreed": found.agreed, "inconclusive": dict(found.inconclusive), "differing": differing}


def _request_as_json(request: JudgedRequest) -> dict[str, Any]:
    ours = request.ours.part.value if request.ours is not None else None
    verdict = {"provider": request.verdict.compared.name.lower(), **members(request.verdict, "reason missed")}
    return {**members(request.address, "branch turn attempt"), "round": request.round, **verdict, "ours": ours}


def print_agreement(found: Agreement) -> None:
    say(found.sentence)
    for stream, each in found.differing:
        place = f"{str(stream)[:8]} {each.address.branch} {each.address.turn}"
        say(f"{place}{f'/{each.round}' if each.round is not None else ''}: {each.sentence}")
