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
from replies import CAUSE, EVIL, HEADINGS, LINKS, long_reply
from tour import TOUR, build

from hames import __version__
from hames.app import open_engine
from hames.cli.serve import git_changes
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread
from hames.domain.events import Event, ItemCompleted, ItemStarted, TurnEnded, TurnStarted
from hames.domain.ids import CallId, ItemId, TurnId
from hames.domain.items import AgentMessage, CommandExecution, TextInput, UserMessage
from hames.domain.models import ModelCard, Price
from hames.domain.options import Choice, Selector
from hames.domain.request import ModelEvent, ModelRequest, ResultBlock, TextBlock
from hames.domain.situation import NOTE_TAGS
from hames.domain.state import ThreadState
from hames.protocols.sync.pages import SandboxReport
from hames.server.app import Address, Extras, serving
from hames.testing.fakes.model import OneModel, ScriptedModel, Step, call, fail, say, think

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

OLD_RAISE, NEW_RAISE = "    raise WrongPassword(name)\n", "    raise WrongPassword(name, user)\n"

Scene = Sequence[Sequence[Step]]


def words(count: int) -> str:
    return "".join(f"word{number} " for number in range(1, count + 1))


SCENES: dict[str, Scene] = {
    "hello": [[say("Hello. What shall we do?")]],
    "slow": [[say(words(400), pieces=400)]],
    "endless": [[say(words(20_000), pieces=20_000)]],
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
    "background": [
        [call("shell", command="echo listening on 8000; sleep 600", background=True)],
        [say("It runs in the background.")],
    ],
    "flood": [[call("shell", command="seq 20000")], [say("That was a lot.")]],
    "fail": [[fail("the key was refused", status=401, info="Unauthorized")]],
    "refuse": [[fail("the model declined to answer this", info="Refusal")]],
    "long": [[fail("the prompt has 230,114 tokens and the model takes 200,000", info="ContextWindowExceeded")]],
    "skip": [
        [
            call("edit", path="nowhere/missing.txt", old_string="one\n", new_string="two\n"),
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
    "mcp": [[call("shell", command="touch issue-412")]],
    "fix": [
        [
            think("The traceback names `login`. I should look at the file before I change anything."),
            say("I'll look first."),
            call("shell", command=COLOURS),
        ],
        [
            say(CAUSE),
            call(
                "plan",
                explanation="Fix the sign-in, with a test first.",
                entries=[
                    {"step": "Find out why unknown names crash", "status": "completed"},
                    {"step": "Write a test that fails", "status": "inProgress"},
                ],
            ),
            call("shell", command="git add -A && git commit -m 'An unknown name is refused like a wrong password'"),
        ],
        [say("Committed. An unknown name and a wrong password now look exactly the same.")],
    ],
    "edits": [
        [call("edit", path="src/login.py", old_string=OLD_RAISE, new_string=NEW_RAISE)],
        [say("Changed.")],
    ],
    "evil": [[say(EVIL), call("<b>bold</b>", html="<script>window.__pwned=1</script>")], [say("That was all.")]],
    "headings": [[say(HEADINGS)]],
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
        prompt, step = _cue(request)
        scene = prompt[0]
        replies = _made_for(prompt, request, step) or SCENES.get(scene, SCENES["hello"])
        # What comes after the last reply of several is a reminder of the engine.
        done = step >= len(replies) > 1
        reply = [say("Nothing is left to do.")] if done else replies[min(step, len(replies) - 1)]
        async for event in ScriptedModel(reply).stream(request):
            if scene in PACED:
                await anyio.sleep(PACED[scene])
            yield event


PACED = {
    "slow": 0.008,
    "endless": 0.008,
    "ponder": 0.008,
    "links": 0.016,
    "prose": 0.016,
    "code": 0.016,
    "reasoning": 0.016,
}
"""Scenes whose pieces come one by one, so that a page draws each of them."""


def _made_for(prompt: list[str], request: ModelRequest, step: int) -> Scene | None:
    """Replies that depend on more than the name of the scene."""
    match prompt:
        case ["mcp", *_] if step:
            results = [
                block.text for message in request.messages for block in message.blocks if isinstance(block, ResultBlock)
            ]
            _, found, note = results[-1].partition("They said: ") if results else ("", "", "")
            return [[say(f"Understood: {note}" if found else "Done.")]]
        case ["links", size, *_]:
            return [[say(LINKS, pieces=-(-len(LINKS) // int(size)))]]
        case [("prose" | "code") as kind, *_]:
            return [[say(long_reply(kind), pieces=500)]]
        case ["reasoning", *_]:
            return [[think(long_reply("prose"), pieces=500), say("Thought about it.")]]
        case _:
            return None


def _cue(request: ModelRequest) -> tuple[list[str], int]:
    """The words of the last prompt, and how often the model was asked since."""
    asked = 0
    for message in reversed(request.messages):
        if message.role == "assistant":
            asked += 1
            continue
        texts = [block.text.strip() for block in message.blocks if isinstance(block, TextBlock)]
        spoken = [text for text in texts if text and not text.startswith(NOTE_TAGS)]
        if spoken:
            return spoken[-1].lower().split(), asked
    return ["hello"], 0


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


async def write_history(engine: Engine, messages: int) -> None:
    """A thread with so many messages that nobody had to wait for. `XYLOPHONE` and `INSTRUMENTS` are in two of them."""
    made = await engine.execute(CreateThread(title="A long thread"))
    assert isinstance(made, ThreadState)
    events: list[Event] = []
    for number in range(0, messages, 2):
        turn, item = TurnId(f"turn_{number}"), ItemId(f"m{number}")
        asked = UserMessage(id=item, step=0, content=(TextInput(text=_message(number)),))
        events += [TurnStarted(turn_id=turn), ItemStarted(turn_id=turn, item=asked)]
        events.append(ItemCompleted(turn_id=turn, item=asked))
        said = AgentMessage(id=ItemId(f"m{number + 1}"), step=1, text=_message(number + 1), status="completed")
        events += [ItemStarted(turn_id=turn, item=said), ItemCompleted(turn_id=turn, item=said)]
        if number + 1 == INSTRUMENTS:
            ran = CommandExecution(
                id=ItemId("ran"), step=1, call_id=CallId("call_1"), command="cat instruments", cwd="/",
                status="completed", output="a glockenspiel\n", exit_code=0,
            )  # fmt: skip
            events += [ItemStarted(turn_id=turn, item=ran), ItemCompleted(turn_id=turn, item=ran)]
        events.append(TurnEnded(turn_id=turn, status="completed", stop_reason="end_turn"))
    await engine._threads.loaded[made.id].thread.emit(*events)


XYLOPHONE, INSTRUMENTS = 801, 1801


def _message(number: int) -> str:
    return "The xylophone is here." if number == XYLOPHONE else f"Message number {number}."


async def serve(
    cwd: Path, *, port: int, behind: int | None, walls: bool, history: int, page: Path, announce: Callable[[str], None]
) -> None:
    options = load({"cwd": str(cwd), "data_dir": str(cwd / ".harness")}, {"HOME": str(cwd.parent / "nobody")})
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
            page=page,
            sandbox=_walls if walls else _no_walls,
            git_changes=git_changes,
        )
        if history:
            await write_history(engine, history)
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
    arguments.add_argument("--history", type=int, default=0, help="a thread with so many messages")
    arguments.add_argument("--page", type=Path, default=PAGE, help="another build of the page")
    given = arguments.parse_args()
    if not (given.cwd / "src").exists():
        prepare(given.cwd)

    def announce(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()

    cwd, walls = given.cwd.resolve(), not given.without_walls
    options = {"port": given.port, "behind": given.behind, "walls": walls, "history": given.history, "page": given.page}
    anyio.run(lambda: serve(cwd, **options, announce=announce))


if __name__ == "__main__":
    main()
