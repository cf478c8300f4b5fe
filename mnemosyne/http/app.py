"""The web application: our own pages under ``/-/``, and everything else is the provider's."""

from quart import request
from quart.wrappers import Response
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioResponse
from werkzeug.exceptions import HTTPException

from mnemosyne.config import Config
from mnemosyne.http.errors import shaped
from mnemosyne.http.gateway import Connection, Gateway
from mnemosyne.http.inspector.guard import refusal
from mnemosyne.http.inspector.pages import pages

_ERROR_NAMES = {404: "not_found_error", 405: "invalid_request_error"}


def create_app(config: Config, gateway: Gateway, token: str) -> QuartTrio:
    """Build the application. ``token`` opens our own pages."""
    app = QuartTrio("mnemosyne", static_folder=None)
    app.asgi_http_class = Connection
    # The framework's defaults would cut a reply after a minute, and a request body at 16 MB.
    app.config["RESPONSE_TIMEOUT"] = None
    app.config["BODY_TIMEOUT"] = None
    app.config["MAX_CONTENT_LENGTH"] = None
    app.register_blueprint(pages(upstream=config.upstream, tenant=config.tenant, progress=gateway.progress))

    @app.before_request
    async def dispatch() -> Response | None:
        # Answering here, before routing, keeps every other method and path untouched: no redirects, no 405.
        if request.path == "/-" or request.path.startswith("/-/"):
            return refusal(request, token=token, host=config.host)
        return await gateway.answer(request)

    @app.errorhandler(HTTPException)
    async def unknown_page(error: HTTPException) -> TrioResponse:
        status = error.code or 500
        return shaped(status, _ERROR_NAMES.get(status, "api_error"), f"{request.path}: {error.description}")

    return app
