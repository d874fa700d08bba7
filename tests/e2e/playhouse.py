"""The real server for a real browser: everything is what people run, but for the model, which plays scenes.

    python tests/e2e/playhouse.py --cwd WORKSPACE --port 0 [--behind PORT]

The first word of a prompt names the scene. The last line on stdout before it serves is its URL.
"""

import argparse
import base64
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import anyio
from tour import TOUR, build

from hames import __version__
from hames.app import open_engine
from hames.config.options import load
from hames.domain.models import ModelCard, Price
from hames.domain.options import Choice, Selector
from hames.domain.request import ModelEvent, ModelRequest, TextBlock
from hames.protocols.sync.pages import SandboxReport
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, fail, say, think
from hames.transports.server import Address, Extras, serving

PAGE = Path(__file__).parents[2] / "src/hames/web/static"

LOGIN = '''"""Signing in."""

from project.users import find


def login(name: str, password: str) -> str:
    user = find(name)
    if user.password == password:
        return user.token
    raise WrongPassword(name)
'''

CHART = (
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAKklEQVR42mM4USEHRHJRC4CIGDYDSaqBDAaSVEM1kOQqhlE/jPqB"
    "Sn4AAItOOxCSlwCXAAAAAElFTkSuQmCC"
)
"""A picture of 16 by 16 pixels."""

COLOURS = "cat colours.txt && ls"

Scene = Sequence[Sequence[Step]]


def words(count: int) -> str:
    return "".join(f"word{number} " for number in range(1, count + 1))


SCENES: dict[str, Scene] = {
    "hello": [[say("Hello. What shall we do?")]],
    "slow": [[say(words(400), pieces=400)]],
    "look": [
        [think("I should look first."), say("Let me look."), call("shell", command=COLOURS)],
        [say("There it is.")],
    ],
    "change": [
        [
            call(
                "plan",
                explanation="Fix the sign-in.",
                entries=[
                    {"step": "Compare in constant time", "status": "inProgress"},
                    {"step": "Run the tests", "status": "pending"},
                ],
            ),
            call(
                "edit",
                path="src/login.py",
                old_string="    if user.password == password:\n",
                new_string="    if user and compare(user.password, password):\n",
            ),
        ],
        [say("**Changed.** The comparison takes the same time for every password.")],
    ],
    "run": [[call("shell", command="touch done.txt && echo made")], [say("It ran.")]],
    "leave": [
        [call("shell", command="touch outside.txt", unsandboxed=True, justification="it has to be outside")],
        [say("Understood.")],
    ],
    "stuck": [[say("This takes a while."), call("shell", command="echo begun; sleep 60")], [say("Never said.")]],
    "flood": [[call("shell", command="seq 20000")], [say("That was a lot.")]],
    "fail": [[fail("the key was refused", status=401, info="Unauthorized")]],
    "refuse": [[fail("the model declined to answer this", info="Refusal")]],
    "long": [[fail("the prompt has 230,114 tokens and the model takes 200,000", info="ContextWindowExceeded")]],
    "skip": [
        [
            call("shell", command="false"),
            call("shell", command="echo never"),
            call("artifact", path="chart.png"),
        ],
        [say("The rest was not run.")],
    ],
    "artifact": [
        [
            call("artifact", path="chart.png", title="The chart"),
            call("read", path="chart.png"),
            call("artifact", path="notes.md", title="The notes"),
        ],
        [say("Here they are.")],
    ],
    "missing": [
        [
            call(
                "edit",
                path="nowhere/missing.txt",
                old_string="a long text that is not in any file\n" * 6,
                new_string="another text\n" * 6,
            )
        ],
        [say("It is not there.")],
    ],
    "lines": [[call("shell", command="cd src\nls\n\n# and count\nls | wc -l")], [say("Five lines.")]],
    "quick": [
        [think("**A quick look**\n\nFirst I list the files."), say("Listing."), call("shell", command="ls")],
        [say("Listed.")],
    ],
    "ponder": [[think("**Weighing it**\n\n" + words(200), pieces=200), say("Pondered.")]],
    "variable": [[call("shell", command="cat $HOME/notes.txt")], [say("Read.")]],
    "remember": [[say("The xylophone is in the third room.")]],
    "the": TOUR,
    "hostile": [
        [
            say(
                "Raw HTML is text: <img src=x onerror='window.__pwned=1'> [a link](javascript:window.__pwned=1) "
                "<script>window.__pwned=1</script>"
            )
        ]
    ],
}


class Stage:
    """A `Provider`: what it says depends on the last prompt, and on how often it was asked since."""

    name = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        scene, step = _cue(request)
        replies = SCENES.get(scene, SCENES["hello"])
        reply = replies[min(step, len(replies) - 1)]
        async for event in ScriptedModel(reply).stream(request):
            if scene in ("slow", "ponder"):
                await anyio.sleep(0.008)
            yield event


def _cue(request: ModelRequest) -> tuple[str, int]:
    asked = 0
    for message in reversed(request.messages):
        if message.role == "assistant":
            asked += 1
            continue
        spoken = [block.text for block in message.blocks if isinstance(block, TextBlock) and block.text.strip()]
        if spoken:
            return spoken[-1].split()[0].lower(), asked
    return "hello", 0


CARD = ModelCard(
    provider="scripted",
    model="stage",
    display_name="Scripted",
    description="Plays scenes",
    reasoning=True,
    price=Price(input=3.0, output=15.0),
)
EFFORT = Selector(
    id="effort",
    name="Effort",
    description="How long it thinks",
    default="medium",
    choices=(Choice(id="low", name="Low"), Choice(id="medium", name="Medium"), Choice(id="high", name="High")),
)


async def serve(cwd: Path, *, port: int, behind: int | None, walls: bool, announce: Callable[[str], None]) -> None:
    options = load({"cwd": str(cwd), "data_dir": str(cwd / ".harness")}, {"HOME": str(cwd)})
    options.data_dir.mkdir(mode=0o700, exist_ok=True)
    models = OneModel(Stage(), CARD, selectors=(EFFORT,))
    names = () if behind is None else (f"127.0.0.1:{behind}",)
    origins = () if behind is None else (f"http://127.0.0.1:{behind}",)
    address = Address(port=port, names=names, origins=origins)
    async with open_engine(options, models=models) as engine:
        extras = Extras(
            data_dir=options.data_dir,
            uploads_dir=options.data_dir / "uploads",
            version=__version__,
            page=PAGE,
            sandbox=_walls if walls else _no_walls,
        )
        async with serving(engine, address, extras) as server:
            announce(server.url)
            await server.wait()


async def _walls() -> SandboxReport:
    return SandboxReport(ok=True, message="")


async def _no_walls() -> SandboxReport:
    return SandboxReport(ok=False, message="no bubblewrap was found; install the package 'bubblewrap'")


def prepare(cwd: Path) -> None:
    (cwd / "src").mkdir(parents=True, exist_ok=True)
    (cwd / "README.md").write_text("# A project\n")
    (cwd / "colours.txt").write_text("\033[31mred\033[0m\n")
    (cwd / "src/login.py").write_text(LOGIN)
    (cwd / "chart.png").write_bytes(base64.b64decode(CHART))
    (cwd / "notes.md").write_text("# Notes\n\n<script>alert(1)</script>\n")
    build(cwd)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cwd", type=Path, required=True)
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--behind", type=int, help="the port of a proxy that browsers come through")
    arguments.add_argument("--without-walls", action="store_true", help="a machine that has no sandbox")
    given = arguments.parse_args()
    if not (given.cwd / "src").exists():
        prepare(given.cwd)

    def announce(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()

    cwd, walls = given.cwd.resolve(), not given.without_walls
    anyio.run(lambda: serve(cwd, port=given.port, behind=given.behind, walls=walls, announce=announce))


if __name__ == "__main__":
    main()
