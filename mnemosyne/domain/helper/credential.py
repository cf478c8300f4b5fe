"""The API key of a client's request, for a helper model at the same provider."""

import attrs


@attrs.frozen(kw_only=True)
class ClientKey:
    """A key, and the dialect and the model of the request that it came with. It is held in memory only."""

    key: str = attrs.field(repr=False)
    dialect: str
    model: str | None
