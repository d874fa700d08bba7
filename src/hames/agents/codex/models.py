"""The models Codex has and what it lets people choose, from its own list.

The list is asked for when somebody waits for nothing, and with the first turn; in between it is a file, which
another process may have written.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from hames.agents.codex.command import NAME
from hames.agents.codex.requests import DEFAULT, PERSONALITIES, REVIEW
from hames.agents.process import AgentProcess, ProgramRefused, running
from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.domain.request import ModelEvent, ModelRequest
from hames.domain.value import Value
from hames.ports import Provider
from hames.ports.sandbox import ProcessGuard
from hames.private_files import write_private

LIST_SECONDS = 20
PAUSES = (0.1, 0.5)
EFFORTS = ("low", "medium", "high")
"""What every model of Codex's has had so far, for as long as its list is not known."""


class Listed(Value):
    """A model of Codex's. `efforts` are pairs of a word and what it means."""

    id: str
    name: str
    description: str = ""
    images: bool = True
    efforts: tuple[tuple[str, str], ...] = ()
    is_default: bool = False


class Catalog(Value):
    models: tuple[Listed, ...] = ()


@asynccontextmanager
async def started(
    command: Sequence[str], *, cwd: str, environment: Mapping[str, str], guard: ProcessGuard | None = None
) -> AsyncGenerator[AgentProcess]:
    """Codex, with the greeting behind it. Raises `ProviderError` when it does not start."""
    async with AsyncExitStack() as stack:
        yield await _answering(stack, [*command, "app-server"], cwd, environment, guard=guard)


async def _answering(
    stack: AsyncExitStack,
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    *,
    guard: ProcessGuard | None,
    attempt: int = 0,
) -> AgentProcess:
    starting = running(command, name="Codex", cwd=cwd, environment=environment, guard=guard)
    program = await stack.enter_async_context(starting)
    try:
        await _greet(program)
    except ProgramRefused as refusal:
        raise ProviderError(f"Codex refused: {refusal}") from None
    except ProviderError:
        # Two that start at once in a home that is new get in each other's way, and one of them ends at once.
        await stack.aclose()
        if attempt == len(PAUSES):
            raise
        await anyio.sleep(PAUSES[attempt])
        return await _answering(stack, command, cwd, environment, guard=guard, attempt=attempt + 1)
    return program


async def _greet(program: AgentProcess) -> None:
    who = {"name": "hames", "title": "Hames", "version": "1"}
    await program.call("initialize", {"clientInfo": who, "capabilities": {"experimentalApi": True}})
    await program.notify("initialized", {})


async def learn(program: AgentProcess, path: Path) -> Catalog:
    """Codex's own list, kept in a file. A Codex that has none has its old one."""
    try:
        told = await program.call("model/list", {"limit": 200})
    except ProgramRefused:
        return recall(path)
    rows: list[Json] = told.get("data") or [] if isinstance(told, dict) else []
    listed = tuple(one for row in rows if isinstance(row, dict) and (one := _listed(row)) is not None)
    found = Catalog(models=listed)
    with suppress(OSError):
        write_private(path, msgspec.json.encode(found))
    return found


def recall(path: Path) -> Catalog:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Catalog)
    except (OSError, ValueError):
        return Catalog()


def _listed(row: dict[str, Json]) -> Listed | None:
    name = row.get("model") or row.get("id")
    if not isinstance(name, str) or not name or not name.isprintable() or row.get("hidden"):
        return None
    efforts = [one for one in row.get("supportedReasoningEfforts") or () if isinstance(one, dict)]
    return Listed(
        id=name,
        name=str(row.get("displayName") or name),
        description=str(row.get("description") or ""),
        images="image" in (row.get("inputModalities") or ("image",)),
        efforts=tuple((str(one.get("reasoningEffort")), str(one.get("description") or "")) for one in efforts),
        is_default=bool(row.get("isDefault")),
    )


class CodexModels:
    """Codex among the models: `codex/default`, and every model it lists."""

    name = NAME
    usable = True
    lists_when_used = False

    def __init__(self, command: Sequence[str], *, models: Path, environment: Mapping[str, str]) -> None:
        self._lister = CodexLister(command, models, environment)
        self._path = models
        self._read: tuple[float, Catalog] = (0.0, Catalog())

    @property
    def url(self) -> str:
        return NAME

    def cards(self) -> Sequence[ModelCard]:
        return [_card(None), *(_card(one) for one in self._catalog().models)]

    def selectors(self) -> Sequence[Selector]:
        """Efforts model by model, as Codex lists them; the rest is the same for all."""
        listed = self._catalog().models
        cards = tuple(card.id for card in self.cards())
        usual = next((one.efforts for one in listed if one.is_default), tuple((word, "") for word in EFFORTS))
        efforts = [(_card(None).id, usual), *((_card(one).id, one.efforts) for one in listed if one.efforts)]
        return [
            *(_selector("reasoning_effort", "Reasoning effort", ((DEFAULT, ""), *of), (card,)) for card, of in efforts),
            _selector("personality", "Personality", tuple((word, "") for word in PERSONALITIES), cards),
            _selector(
                "collaboration_mode",
                "Collaboration mode",
                (
                    (DEFAULT, ""),
                    (REVIEW, "Look at the work and say what is wrong with it"),
                    ("plan", "Plan, change nothing"),
                ),
                cards,
            ),
        ]

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means Codex
        return None

    def named(self, model: str) -> ModelCard:
        if model in ("", DEFAULT):
            return _card(None)
        listed = next((one for one in self._catalog().models if one.id == model), None)
        return _card(listed or Listed(id=model, name=model))

    def learn(self, listed: object) -> None:
        """Nothing: what Codex lists is kept as a whole when it is asked for."""

    def provider(self, card: ModelCard) -> Provider:  # noqa: ARG002
        return self._lister

    def _catalog(self) -> Catalog:
        try:
            changed = self._path.stat().st_mtime
        except OSError:
            return Catalog()
        if changed != self._read[0]:
            self._read = (changed, recall(self._path))
        return self._read[1]


class CodexLister:
    """In a provider's place: it can be asked for the list of models, and for no reply."""

    name = NAME
    usable = True

    def __init__(self, command: Sequence[str], models: Path, environment: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._path = models
        self._environment = dict(environment)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise ProviderError(f"Codex runs whole turns; {request.model!r} cannot answer a single model request")
        yield

    async def models(self) -> bytes:
        """The list in the form that every service's list has. Raises `ProviderError`."""
        found = await self._asked()
        return msgspec.json.encode({"data": [{"id": one.id, "display_name": one.name} for one in found.models]})

    async def warm(self) -> None:
        with suppress(ProviderError):
            await self._asked()

    async def aclose(self) -> None:
        return

    async def _asked(self) -> Catalog:
        try:
            with anyio.fail_after(LIST_SECONDS):
                async with started(self._command, cwd="/", environment=self._environment) as program:
                    return await learn(program, self._path)
        except TimeoutError:
            raise ProviderError("Codex did not list its models: it took too long") from None


def _card(listed: Listed | None) -> ModelCard:
    if listed is None:
        description = "OpenAI's Codex runs the turn, with its own tools and sandbox"
        return ModelCard(provider=NAME, model=DEFAULT, display_name="Codex", description=description, reasoning=True)
    return ModelCard(
        provider=NAME,
        model=listed.id,
        display_name=f"Codex with {listed.name}",
        description=listed.description,
        images=listed.images,
        reasoning=True,
    )


def _selector(name: str, title: str, choices: tuple[tuple[str, str], ...], models: tuple[str, ...]) -> Selector:
    return Selector(
        id=name,
        name=title,
        group="Reasoning" if name == "reasoning_effort" else "Codex",
        choices=tuple(Choice(id=word, name=word.capitalize(), description=says) for word, says in choices),
        default=DEFAULT,
        models=models,
    )
