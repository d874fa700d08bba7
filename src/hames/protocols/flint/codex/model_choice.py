"""Which model a request of Codex's asks for: the name and its provider are two members there."""

from msgspec.structs import replace

from hames.codecs.jsonrpc_peer import Params
from hames.domain.errors import InvalidCommand, UnknownModel
from hames.domain.options import Overrides
from hames.ports import Models


def with_provider(given: Overrides, params: Params, models: Models, current: str) -> Overrides:
    """`current` is the model that the thread has if the request names none. Raises `InvalidCommand`."""
    provider = params.get("modelProvider")
    if provider is not None and not isinstance(provider, str):
        raise InvalidCommand("modelProvider: must be the name of a provider")
    if provider:
        name = given.model or current
        if given.model is not None and "/" not in given.model:
            given = replace(given, model=f"{provider}/{given.model}")
        elif name.partition("/")[0] != provider:
            raise InvalidCommand(f"modelProvider: {name!r} is not a model of {provider!r}; name one of its models")
    if given.model is None or not params.get("allowProviderModelFallback"):
        return given
    try:
        models.find(given.model)
    except UnknownModel:
        return replace(given, model=None)
    return given
