"""Sends spans to a collector as OTLP over HTTP in JSON, a stable format that needs no library."""

from collections.abc import Iterable, Mapping
from typing import Any

import httpx2

from mnemosyne import __version__
from mnemosyne.errors import UpstreamFailed
from mnemosyne.services.spans import TraceSpan

_KINDS = {"internal": 1, "server": 2, "client": 3}
_FAILED = 2


async def send_spans(client: httpx2.AsyncClient, endpoint: str, spans: Iterable[TraceSpan]) -> None:
    """Send spans to the collector at ``endpoint``. Raises UpstreamFailed."""
    url = f"{endpoint}/v1/traces"
    try:
        response = await client.post(url, json=write_request(spans))
    except httpx2.HTTPError as error:
        raise UpstreamFailed(f"no answer from {url}: {type(error).__name__}") from None
    if response.status_code >= 300:
        raise UpstreamFailed(f"{url} answers {response.status_code}")


def write_request(spans: Iterable[TraceSpan]) -> dict[str, Any]:
    """The message of spans (ExportTraceServiceRequest)."""
    scope = {"scope": {"name": "mnemosyne", "version": __version__}, "spans": list(map(_write_span, spans))}
    resource = {"attributes": _write_attributes({"service.name": "mnemosyne", "service.version": __version__})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _write_span(span: TraceSpan) -> dict[str, Any]:
    errors = {} if span.error is None else {"error.type": span.error}
    return {
        "traceId": span.trace.hex(),
        "spanId": span.id.hex(),
        **({"parentSpanId": span.parent.hex()} if span.parent else {}),
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.began * 1000),
        "endTimeUnixNano": str(span.ended * 1000),
        "attributes": _write_attributes({**span.attributes, **errors}),
        **({"status": {"code": _FAILED, "message": span.error}} if span.error is not None else {}),
    }


def _write_attributes(attributes: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in attributes.items()
    ]
