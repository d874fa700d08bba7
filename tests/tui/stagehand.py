"""The terminal on a stage: a real screen without a terminal, a real engine behind a real connection."""

import atexit
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from textual.pilot import Pilot

from flint_support import SELECTORS, wired
from hames.client.appserver.client import AppServerClient
from hames.core.engine import Engine
from hames.ports import Tool
from hames.testing.fakes.model import OneModel, ScriptedModel
from hames.tui.app import HamesApp
from hames.tui.approval import ApprovalPanel
from hames.tui.session import NewThreadSettings
from support import engine

SECONDS = 60
EMPTY = Path(tempfile.mkdtemp(prefix="hames-tui-"))
"""Where the terminal runs unless a test says otherwise. It looks for files to complete, and a whole disk has many."""
atexit.register(shutil.rmtree, EMPTY, ignore_errors=True)


class Stage:
    """What somebody in front of the terminal does and sees."""

    def __init__(self, app: HamesApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def until(self, seen: Callable[[], object], what: str = "") -> None:
        with anyio.move_on_after(SECONDS):
            while not seen():
                await self.pilot.pause(0.01)
            return
        raise AssertionError(f"never seen: {what}\n{self.screen()}")

    async def shows(self, *words: str) -> None:
        for word in words:
            await self.until(lambda: word in self.screen(), word)  # noqa: B023

    async def hides(self, word: str) -> None:
        await self.until(lambda: word not in self.screen(), f"without {word}")

    async def says(self, text: str, key: str = "enter") -> None:
        self.app.composer.put(text)
        await self.pilot.press(key)

    async def presses(self, *keys: str) -> None:
        """One after the other, and each answer to a question with a pause after it."""
        panel = self.app.screen_stack[0].query(ApprovalPanel).first()
        for key in keys:
            await self.pilot.press(key)
            await self.until(lambda: panel.settled, f"what {key} does")

    async def asked(self) -> ApprovalPanel:
        """The question, once its keys count."""
        panel = self.app.query_one(ApprovalPanel)
        await self.until(lambda: panel.asked is not None and panel.has_focus and panel.armed, "a question")
        return panel

    def screen(self) -> str:
        """The screen as plain text, one row a line."""
        rows = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in rows)

    def row(self, word: str) -> str:
        return next(row for row in self.screen().split("\n") if word in row)


@asynccontextmanager
async def staged(
    model: ScriptedModel | Engine,
    *tools: Tool,
    size: tuple[int, int] = (80, 24),
    cwd: Path = EMPTY,
    state_dir: Path | None = None,
    dark: bool = True,
    resume: str | None = None,
    prompt: str = "",
    new_settings: NewThreadSettings | None = None,
    warnings: Sequence[str] = (),
    notice: Callable[[], str] | None = None,
) -> AsyncGenerator[Stage]:
    """`model` may be an engine that runs already."""

    @asynccontextmanager
    async def reach() -> AsyncGenerator[AppServerClient]:
        if isinstance(model, Engine):
            async with wired(model) as wire, AppServerClient.connect(wire) as client:
                yield client
        else:
            models = OneModel(model, selectors=SELECTORS)
            async with engine(models, *tools) as made, wired(made) as wire, AppServerClient.connect(wire) as client:
                yield client

    app = HamesApp(
        reach,
        cwd=cwd,
        state_dir=state_dir,
        dark=dark,
        resume=resume,
        prompt=prompt,
        new_settings=new_settings,
        warnings=warnings,
        notice=notice,
    )
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, pilot)
        await stage.until(lambda: app.talk.model, "a model")
        yield stage
        app.exit(0)


def shape(svg: str) -> list[str]:
    """What a picture says, row by row, without its colours, fonts and generated names."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows.setdefault(float(y), []).append((float(x), text.replace("&#160;", " ")))
    return ["".join(text for _, text in sorted(row)).rstrip() for _, row in sorted(rows.items())]
