"""Whether the client may work: there is a key for the model, and the client has not signed out."""

from hames.codecs.jsonrpc_peer import Params
from hames.domain.errors import InvalidCommand
from hames.domain.options import Settings
from hames.ports import Models
from hames.protocols.acp.errors import AuthRequired
from hames.protocols.acp.inbound import read
from hames.protocols.acp.messages.v1 import AuthenticateRequest

METHOD = "api-key"


class SignIn:
    def __init__(self, models: Models, defaults: Settings) -> None:
        self._models = models
        self._model = defaults.model
        self._signed_out = False

    def authenticate(self, params: Params) -> None:
        """Raises `InvalidCommand` and `AuthRequired`."""
        given = read(params, AuthenticateRequest)
        if given.method_id != METHOD:
            raise InvalidCommand(f"methodId: there is no {given.method_id!r}; the method is {METHOD!r}")
        self.check_key()
        self._signed_out = False

    def sign_out(self) -> None:
        self._signed_out = True

    def check(self) -> None:
        """Raises `AuthRequired`."""
        if self._signed_out:
            raise AuthRequired("you have signed out: authenticate first")

    def check_key(self) -> None:
        """Raises `AuthRequired`."""
        card = self._models.find(self._model)
        if not card.usable:
            raise AuthRequired(f"there is no key for {card.id!r}: run `hames setup`, or set its environment variable")
