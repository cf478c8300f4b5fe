"""OpenAI's errors: a message, a type, the wrong parameter, a code."""

import orjson

_TYPES: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "This key may not use the resource."),
    404: ("invalid_request_error", None, "Not Found"),
    405: ("invalid_request_error", None, "Method Not Allowed"),
    413: ("invalid_request_error", None, "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", "server_is_overloaded", "Our servers are currently overloaded. Please try again later."),
}


def openai_error_body(
    status: int,
    message: str | None = None,
    kind: str | None = None,
    *,
    param: str | None = None,
    code: str | None = None,
) -> bytes:
    """The JSON body of an error, with defaults by status."""
    usual = _TYPES.get(status, _TYPES[500])
    usual_code = usual[1] if message is None else None
    error = {"message": message or usual[2], "type": kind or usual[0], "param": param, "code": code or usual_code}
    return orjson.dumps({"error": error})
