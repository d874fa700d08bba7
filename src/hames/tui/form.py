"""A form filled in field by field, in one line of the terminal. Knows nothing of the screen."""

from hames.domain.approvals import Elicit
from hames.domain.display import visible
from hames.domain.forms import fields, misfit, properties, typed
from hames.domain.json import Json
from hames.protocols.flint import messages as m


class Form:
    """The form of an MCP server. An empty answer keeps a field's default."""

    def __init__(self, params: m.ElicitationParams) -> None:
        url = params.url if isinstance(params.url, str) else ""
        schema: Json = None if url else params.requested_schema
        self.elicit = Elicit(server=params.server_name, message=params.message, schema=schema, url=url)
        self.fields = fields(schema)
        self._schemas = properties(schema)
        self._names = list(self.fields)
        self._at = 0
        self.content: dict[str, Json] = self._standing()

    @property
    def as_it_stands(self) -> str:
        """Why it cannot be handed in without filling in anything, or nothing."""
        return misfit(self.elicit, None)

    @property
    def wanted(self) -> str:
        """The field whose turn it is, in words; nothing when there is no more."""
        if self._at >= len(self._names):
            return ""
        name = self._names[self._at]
        return visible(f"{name}: {self.fields[name]}")

    def take(self, text: str) -> str:
        """What was typed for this field. When it was the last: why the whole does not fit, or nothing."""
        name = self._names[self._at]
        if text:
            self.content[name] = typed(self._schemas[name], text)
        self._at += 1
        return "" if self.wanted else misfit(self.elicit, self.content)

    def again(self) -> None:
        self._at = 0
        self.content = self._standing()

    def _standing(self) -> dict[str, Json]:
        given = self._schemas.items()
        return {name: field["default"] for name, field in given if isinstance(field, dict) and "default" in field}
