"""The models of an ACP agent in our list: `NAME/default`, and every model that it lists.

An agent tells what it offers when a session is opened. That is kept in a file, so that lists and selectors are there
before the first turn of the next process.
"""

import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import anyio
import msgspec

from hames.agents.acp.connection import AcpConnection
from hames.agents.acp.options import DEFAULT, MODEL, AgentCatalog, selectors
from hames.agents.process import ProgramRefused
from hames.domain.errors import ProviderError
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.domain.request import ModelEvent, ModelRequest
from hames.ports import Provider
from hames.private_files import write_private

LIST_SECONDS = 60.0

Start = Callable[[str], AbstractAsyncContextManager[AcpConnection]]
"""Starts the agent in a directory and greets it. Raises `ProviderError`."""


class CatalogFile:
    """What an agent offers, in a file. It is read again when another process has changed it. None: in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._read: tuple[float, AgentCatalog] = (0.0, AgentCatalog())

    def read(self) -> AgentCatalog:
        if self._path is None:
            return self._read[1]
        try:
            changed = self._path.stat().st_mtime
            if changed != self._read[0]:
                self._read = (changed, msgspec.json.decode(self._path.read_bytes(), type=AgentCatalog))
        except (OSError, ValueError):
            return AgentCatalog()
        return self._read[1]

    def keep(self, catalog: AgentCatalog) -> None:
        if self._path is None:
            self._read = (0.0, catalog)
        elif catalog != self.read():
            with suppress(OSError):
                write_private(self._path, msgspec.json.encode(catalog))


class AcpModels:
    """One agent's part of the catalogue. Implements `providers.source.ListedSource`."""

    usable = True
    lists_when_used = False

    def __init__(self, name: str, command: Sequence[str], *, file: CatalogFile, start: Start) -> None:
        self.name = name
        self._command = " ".join(word.rpartition("/")[2] or word for word in command)
        self._file = file
        self._lister = AcpLister(name, file, start)

    @property
    def url(self) -> str:
        return self.name

    def cards(self) -> Sequence[ModelCard]:
        catalog = self._file.read()
        option = catalog.option(MODEL)
        listed = [] if option is None else [one for one in option.choices if one.id != DEFAULT]
        title = catalog.title or self.name
        cards = [self._card(one.id, f"{title}: {one.name}", one.description, catalog) for one in listed]
        return [self._default(catalog), *cards]

    def selectors(self) -> Sequence[Selector]:
        return selectors(self._file.read(), self.name, tuple(card.id for card in self.cards()))

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means an agent
        return None

    def named(self, model: str) -> ModelCard:
        """Taken at its word: the agent says at the turn which models it has."""
        catalog = self._file.read()
        if model in ("", DEFAULT):
            return self._default(catalog)
        found = next((card for card in self.cards() if card.model == model), None)
        return found or self._card(model, model, "", catalog)

    def learn(self, listed: object) -> None:
        """Nothing: what the agent offers is kept as a whole when it is asked for."""

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        return self._lister

    def _default(self, catalog: AgentCatalog) -> ModelCard:
        title = catalog.title if catalog.title and catalog.title != self.name else ""
        named = f"The agent {self.name!r}{f' ({title})' if title else ''}"
        return self._card(DEFAULT, title or self.name, f"{named}: {self._command}", catalog)

    def _card(self, model: str, name: str, description: str, catalog: AgentCatalog) -> ModelCard:
        return ModelCard(
            provider=self.name, model=model, display_name=name, description=description, images=catalog.images
        )


class AcpLister:
    """In a provider's place: it can be asked for the list of models, and for no reply."""

    usable = True

    def __init__(self, name: str, file: CatalogFile, start: Start) -> None:
        self.name = name
        self._file = file
        self._start = start

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise ProviderError(f"{self.name} runs whole turns; {request.model!r} cannot answer a single model request")
        yield

    async def models(self) -> bytes:
        """The list in the form that every service's list has. Raises `ProviderError`."""
        catalog = await self._ask()
        option = catalog.option(MODEL)
        listed = [] if option is None else [{"id": one.id, "display_name": one.name} for one in option.choices]
        return msgspec.json.encode({"data": listed or [{"id": DEFAULT}]})

    async def warm(self) -> None:
        return

    async def aclose(self) -> None:
        return

    async def _ask(self) -> AgentCatalog:
        try:
            with anyio.fail_after(LIST_SECONDS), tempfile.TemporaryDirectory() as empty:
                async with self._start(empty) as connection:
                    opened = await connection.new_session(empty, ())
                    catalog = connection.catalog(self._file.read(), opened)
        except ProgramRefused as refusal:
            raise ProviderError(f"{self.name} refused: {refusal}") from None
        except TimeoutError:
            raise ProviderError(f"{self.name} did not list its models: it took too long") from None
        self._file.keep(catalog)
        return catalog
