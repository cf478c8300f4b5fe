"""Errors of the APIs: one JSON shape for the Messages API and one for OpenAI's, with a type for each status.

Source: Messages API documentation (errors), and the errors of OpenAI's API as clients report them.
"""

import orjson

TYPES: dict[int, tuple[str, str]] = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "There is a problem with the billing of this account."),
    403: ("permission_error", "This key may not use the resource."),
    404: ("not_found_error", "Not Found"),
    405: ("invalid_request_error", "Method Not Allowed"),
    409: ("conflict_error", "The request is in conflict with another one."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed the rate limit of your organization."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}


class ApiFailure(Exception):
    """The API answers with an error instead of a message."""

    def __init__(
        self, status: int, message: str | None = None, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        """The place in the body, in the dialects whose errors name one."""
        self.code = code


def error_body(status: int, request_id: str, message: str | None = None, kind: str | None = None) -> bytes:
    """The JSON body of an error; type and message default by status."""
    usual = TYPES.get(status, ("api_error", "Something went wrong."))
    error = {"type": kind or usual[0], "message": message or usual[1]}
    return orjson.dumps({"type": "error", "error": error, "request_id": request_id})


_OPENAI_TYPES: dict[int, tuple[str, str | None, str]] = {
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
    usual = _OPENAI_TYPES.get(status, _OPENAI_TYPES[500])
    usual_code = usual[1] if message is None else None
    error = {"message": message or usual[2], "type": kind or usual[0], "param": param, "code": code or usual_code}
    return orjson.dumps({"error": error})
