"""Makes the terminal's pictures in docs/images from the running program: `python tests/tui/pictures.py`.

A real task on a scripted model, with the tools and the sandbox of this machine. PNGs need Chromium; SVGs need nothing.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from importlib.resources import files
from pathlib import Path

from hames.tui.app import HamesApp
from hames.tui.approval import ApprovalPanel
from hames.tui.server_process import spawn_server

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SHOWN = "/home/ada/demo"
TASK = "Make the tests pass, and tell me what was wrong."


class Booth:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.shop = home / "shop"
        self.shop.mkdir()
        source = files("hames.cli") / "demo_files"
        for name in ("cart.py", "test_cart.py"):
            (self.shop / name).write_text((source / name).read_text())
        (home / "demo.json").write_text((source / "script.json").read_text().replace("PYTHON", "python3"))

    def app(self, *, dark: bool) -> HamesApp:
        command = [sys.executable, "-m", "hames", "app-server", f"--cwd={self.shop}", "--model=scripted/demo.json"]
        return HamesApp(partial(spawn_server, command), cwd=self.shop, dark=dark)

    def picture(self, app: HamesApp) -> str:
        svg = app.export_screenshot(title="hames")
        # The generated class names differ from run to run; the picture does not.
        return re.sub(r"terminal-\d+", "terminal", svg).replace(str(self.home), SHOWN)

    def keep(self, app: HamesApp, name: str) -> None:
        (IMAGES / f"{name}.svg").write_text(self.picture(app))


async def task(booth: Booth, *, dark: bool, size: tuple[int, int]) -> None:
    app, shade = booth.app(dark=dark), "dark" if dark else "light"
    async with app.run_test(size=size) as pilot:
        while not app.talk.model:
            await pilot.pause(0.05)
        app.composer.put(TASK)
        await pilot.press("enter")
        panel, questions = app.query_one(ApprovalPanel), 0
        await pilot.pause(0.5)
        while app.talk.running or not questions:
            await pilot.pause(0.05)
            if panel.asked is not None and panel.armed:
                questions += 1
                if questions == 2:
                    booth.keep(app, f"tui-approval-{shade}")
                await pilot.press("y")
        await pilot.pause(0.3)
        booth.keep(app, f"tui-{shade}")
        await pilot.press("ctrl+l")
        await pilot.pause(0.5)
        booth.keep(app, f"tui-models-{shade}")
        await pilot.press("escape", *"/th")
        await pilot.pause(0.3)
        booth.keep(app, f"tui-commands-{shade}")


async def film(booth: Booth) -> None:
    """The same task as a moving picture: typed, asked about twice, done."""
    app = booth.app(dark=True)
    frames: list[tuple[str, float]] = []

    def shoot(seconds: float) -> None:
        frames.append((booth.picture(app), seconds))

    async with app.run_test(size=(92, 28)) as pilot:
        while not app.talk.model:
            await pilot.pause(0.05)
        shoot(0.8)
        for end in range(12, len(TASK) + 12, 12):
            app.composer.put(TASK[:end])
            await pilot.pause(0.05)
            shoot(0.2)
        await pilot.press("enter")
        panel, questions = app.query_one(ApprovalPanel), 0
        while app.talk.running or not questions:
            await pilot.pause(0.3)
            if panel.asked is not None and panel.armed:
                questions += 1
                shoot(2.4)
                await pilot.press("y")
            elif panel.asked is None:
                shoot(0.5)
        await pilot.pause(0.3)
        shoot(4.0)
    (IMAGES / "terminal.svg").write_text(moving(frames))


def moving(frames: list[tuple[str, float]]) -> str:
    """One SVG that shows pictures one after the other, for ever. Nothing in it is loaded from elsewhere."""
    different = [frame for index, frame in enumerate(frames) if not index or frame[0] != frames[index - 1][0]]
    whole, at, parts = sum(seconds for _, seconds in different), 0.0, list[str]()
    box = re.search(r'viewBox="[^"]+"', different[0][0])
    assert box is not None
    for number, (picture, seconds) in enumerate(different):
        svg = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
        own_names = re.sub(r'(\.|id="|url\(#|class="| )terminal-', rf"\1f{number}-", svg)
        begin, end = at / whole, (at + seconds) / whole
        times, values = (f"0;{begin:.4f};{end:.4f}", "hidden;visible;hidden")
        if not number:
            times, values = f"0;{end:.4f}", "visible;hidden"
        change = f'<animate attributeName="visibility" calcMode="discrete" dur="{whole:.2f}s" repeatCount="indefinite"'
        # A viewer that does not play it shows the last picture.
        hidden = "visible" if number == len(different) - 1 else "hidden"
        parts.append(f'<g visibility="{hidden}">{change} keyTimes="{times}" values="{values}"/>{own_names}</g>')
        at += seconds
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box[0]}>{"".join(parts)}</svg>\n'


def png(path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', path.read_text()[:4000])
    if browser is None or found is None:
        return
    size = f"{int(float(found[1])) + 1},{int(float(found[2])) + 1}"
    target = path.with_suffix(".png")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
    subprocess.run([browser, *words, f"--screenshot={target}", path.as_uri()], capture_output=True, check=True)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for shown in (partial(task, dark=True, size=(100, 34)), partial(task, dark=False, size=(80, 24)), film):
        home = Path(tempfile.mkdtemp(prefix="a", dir="/tmp"))
        assert len(str(home)) == len(SHOWN), "letters of a picture stand where they were"
        os.environ["HOME"], before = str(home), Path.cwd()
        os.chdir(home)
        try:
            asyncio.run(shown(Booth(home)))
        finally:
            os.chdir(before)
            shutil.rmtree(home, ignore_errors=True)
    for name in ("tui-dark", "tui-approval-dark", "tui-light"):
        png(IMAGES / f"{name}.svg")


if __name__ == "__main__":
    main()
