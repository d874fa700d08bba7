"""A model that plays a script: no key, no network, the same words every time.

The model `scripted/PATH` plays a JSON file; `scripted/hello` needs none. A script is a list
of replies, one per model call, and a reply is a list of steps (or one step, or just a text):

    [
      [{"think": "Let me look."}, {"call": "shell", "with": {"command": "ls"}}],
      "There are three files."
    ]

The steps of a reply:

    {"say": "text"}                        text; "pieces": 4 cuts it in four, otherwise word by word
                                           "cites": [{"url": "…", "title": "…", "quote": "…"}] names its sources
    {"think": "text"}                      reasoning
    {"call": "tool", "with": {…}}          a tool call; "arguments": "…" instead is its raw text, valid or not
    {"search": "query"}                    a web search by the service itself
    {"notice": "name", "message": "…"}     something beside the answer
    {"wait_ms": 500}                       a pause
    {"hang": true}                         silence until somebody goes away
    {"fail": "sentence"}                   an error, with "status", "info" and "retryable"
    {"usage": {"input_tokens": 10, …}}     what the call cost; otherwise about a token per four characters
    {"stop": "max_tokens"}                 why the model stopped; otherwise `tools` after a call, else `end`

Every step but the last two takes "pace_ms": the time before each piece. To answer different
prompts differently, write an object. The first conversation whose `when` stands in the
prompt answers it, from its first reply on; `otherwise` answers the rest:

    {
      "pace_ms": 15,
      "conversations": [{"when": "fix the test", "replies": […]}],
      "otherwise": ["I only know how to fix the test."]
    }

Where a script stands is read from the history it is shown, so it goes on after a restart
and plays in many threads at once; replies that leave no trace (a failure) are remembered,
unless the object says `"remembers": false`. Past the last reply the model fails and says so.
"""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from hames.domain.errors import ErrorInfo, Misconfigured, ProviderError
from hames.domain.ids import CallId
from hames.domain.items import Call, Citation
from hames.domain.json import Json
from hames.domain.request import (
    ModelEvent,
    ModelRequest,
    ProviderNotice,
    ReasoningDelta,
    ReasoningEnded,
    ReplyEnded,
    ResultBlock,
    SearchEnded,
    SearchStarted,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageSeen,
)
from hames.domain.usage import Usage
from hames.domain.value import Value
from hames.ports import Clock

ENDED_THERE = ("interrupted", "not executed", "not run")
"""How the results of calls begin that were under way, or still to come, when their turn ended."""
SCRIPT_BYTES = 10 * 1024 * 1024
THREADS = 1024
KINDS = ("say", "think", "call", "search", "notice", "wait_ms", "hang", "fail", "usage", "stop")

HELLO = """{"conversations": [{"when": "", "replies": [[
 "Hello. I am a script, not a model: I need no key and no network. ",
 {"think": "Whatever was asked, the answer is the same."},
 "Write your own and play it with `--model scripted/PATH`."]]}]}"""


class Step(Value, forbid_unknown_fields=True, rename={"arguments_": "with"}):
    """One of `KINDS` says what it is; the rest refines it."""

    say: str | None = None
    think: str | None = None
    call: str | None = None
    search: str | None = None
    notice: str | None = None
    wait_ms: int | None = None
    hang: bool | None = None
    fail: str | None = None
    usage: Usage | None = None
    stop: StopReason | None = None
    arguments_: dict[str, Json] = {}
    arguments: str | None = None
    pieces: int = 0
    pace_ms: int | None = None
    message: str = ""
    status: int | None = None
    info: ErrorInfo = "Other"
    retryable: bool = False
    cites: tuple[Citation, ...] = ()


Reply = tuple[Step, ...]


class ScriptedConversation(Value):
    """`when` None: whatever is asked, and it goes on over all prompts. Otherwise it begins anew with each prompt."""

    replies: tuple[Reply, ...]
    when: str | None = None


class Script(Value):
    conversations: tuple[ScriptedConversation, ...]
    pace_ms: int = 0
    remembers: bool = True
    """A reply that left no trace is not played again."""


class _WrittenConversation(Value, forbid_unknown_fields=True):
    when: str
    replies: list[Json]


class _Written(Value, forbid_unknown_fields=True):
    """A script as it stands in the file."""

    conversations: list[_WrittenConversation] = []
    otherwise: list[Json] | None = None
    pace_ms: int = 0
    remembers: bool = True


class ScriptedProvider:
    name = "scripted"

    def __init__(self, *, clock: Clock, scripts: Mapping[str, str] | None = None) -> None:
        """`scripts` are names for script files."""
        self._clock = clock
        self._paths = dict(scripts or {})
        self._loaded: dict[str, Script] = {}
        self._played: dict[tuple[str, ...], int] = {}

    def load(self, path: str) -> Script:
        """Read the script once. Raises `Misconfigured`."""
        if path not in self._loaded:
            self._loaded[path] = read_script(HELLO if path == "hello" else self._text(path), name=path)
        return self._loaded[path]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        await checkpoint()
        try:
            script = self.load(request.model)
        except Misconfigured as error:
            raise ProviderError(str(error), info="ModelNotFound") from None
        reply = self._next(script, request)
        play = _Play(self._clock, script.pace_ms, len(request.messages))
        for step in reply:
            async for event in play.step(step):
                yield event
        for event in play.end(request):
            yield event

    def _next(self, script: Script, request: ModelRequest) -> Reply:
        texts, prompts, replies = _last_prompt(request)
        all_replies = sum(message.role == "assistant" for message in request.messages)
        if (number := _answering(script, texts)) is not None:
            conversation = script.conversations[number]
            key = (request.model, request.cache_key, str(number), str(prompts) if conversation.when is not None else "")
            shown = replies if conversation.when is not None else all_replies
            position = max(shown, self._played.get(key, 0)) if script.remembers else shown
            if position >= len(conversation.replies):
                raise ProviderError(f"the script {request.model!r} has only {len(conversation.replies)} replies here")
            while len(self._played) >= THREADS:
                del self._played[next(iter(self._played))]
            self._played.pop(key, None)
            self._played[key] = position + 1
            return conversation.replies[position]
        known = ", ".join(repr(conversation.when) for conversation in script.conversations)
        raise ProviderError(f"the script {request.model!r} has no answer to that; it knows {known}")

    def _text(self, model: str) -> bytes:
        path = Path(self._paths.get(model, model)).expanduser()
        try:
            about = path.stat()
            if not S_ISREG(about.st_mode) or about.st_size > SCRIPT_BYTES:
                raise Misconfigured(f"{str(path)!r} is not a script")
            return path.read_bytes()
        except OSError as error:
            raise Misconfigured(f"no script {str(path)!r}: {error.strerror}") from None


def read_script(text: str | bytes, *, name: str) -> Script:
    """Raises `Misconfigured` with the place of the mistake.

    >>> script = read_script('["Hi.", [{"call": "shell", "with": {"command": "ls"}}]]', name="x")
    >>> script.conversations[0].replies[1][0].call
    'shell'
    """
    try:
        written = msgspec.json.decode(text)
        written = msgspec.convert({"otherwise": written} if isinstance(written, list) else written, _Written)
        told = [ScriptedConversation(when=part.when, replies=_replies(part.replies)) for part in written.conversations]
        if written.otherwise is not None:
            told.append(ScriptedConversation(replies=_replies(written.otherwise)))
        return Script(conversations=tuple(told), pace_ms=written.pace_ms, remembers=written.remembers)
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"the script {name!r} cannot be read: {error}") from None


def _replies(written: list[Json]) -> tuple[Reply, ...]:
    return tuple(tuple(map(_step, reply if isinstance(reply, list) else [reply])) for reply in written)


def _step(written: Json) -> Step:
    if isinstance(written, str):
        return Step(say=written)
    step = msgspec.convert(written, Step)
    if sum(getattr(step, kind) is not None for kind in KINDS) != 1:
        raise ValueError(f"a step is one of {', '.join(KINDS)}, not {sorted(written)}")
    return step


def _answering(script: Script, texts: list[str]) -> int | None:
    """Which conversation answers. The texts may be several prompts, when earlier turns ended without a reply: what was
    said last decides, and what was said before it only where the last text alone names no conversation."""
    for count in range(1, len(texts) + 1):
        prompt = " ".join(texts[-count:]).casefold()
        for number, conversation in enumerate(script.conversations):
            if not conversation.when:
                break
            if conversation.when.casefold() in prompt:
                return number
    return next((number for number, one in enumerate(script.conversations) if not one.when), None)


def _last_prompt(request: ModelRequest) -> tuple[list[str], int, int]:
    """The texts since the last reply to a prompt, how many texts there were, and how many replies the last has had."""
    texts, prompts, replies = list[str](), 0, 0
    for message in request.messages:
        if message.role == "assistant":
            replies += 1
            continue
        results = [block for block in message.blocks if isinstance(block, ResultBlock)]
        said = [block.text for block in message.blocks if isinstance(block, TextBlock)]
        # Text beside results was said while the turn ran, unless the turn ended there: then it is the next prompt.
        if not results or (said and results[-1].failed and results[-1].text.startswith(ENDED_THERE)):
            texts, prompts, replies = said, prompts + max(1, len(said)), 0
    return texts, prompts, replies


class _Play:
    """One reply on its way."""

    def __init__(self, clock: Clock, pace_ms: int, place: int) -> None:
        self._clock = clock
        self._pace_ms = pace_ms
        self._place = place
        self._block = -1
        self._characters = 0
        self._usage: Usage | None = None
        self._stop: StopReason = "end"

    async def step(self, step: Step) -> AsyncGenerator[ModelEvent, None]:
        pace_s = (self._pace_ms if step.pace_ms is None else step.pace_ms) / 1000
        if step.wait_ms is not None:
            await self._clock.sleep(step.wait_ms / 1000)
        elif step.hang:
            await anyio.sleep_forever()
        elif step.fail is not None:
            raise ProviderError(step.fail, retryable=step.retryable, status=step.status, info=step.info)
        elif step.usage is not None:
            self._usage = step.usage
        elif step.stop is not None:
            self._stop = step.stop
        for event in self._events(step):
            if pace_s:
                await self._clock.sleep(pace_s)
            else:
                await checkpoint()  # where the network would let others run
            yield event

    def _events(self, step: Step) -> Iterator[ModelEvent]:
        self._block += 1
        block = self._block
        if step.say is not None:
            for piece in self._cut(step.say, step.pieces):
                yield TextDelta(block=block, text=piece)
            cited = tuple(replace(source, end=source.end or len(step.say)) for source in step.cites)
            yield TextEnded(block=block, citations=cited)
        elif step.think is not None:
            for piece in self._cut(step.think, step.pieces):
                yield ReasoningDelta(block=block, text=piece)
            yield ReasoningEnded(block=block, opaque={"scripted": True})
        elif step.call is not None:
            arguments = msgspec.json.encode(step.arguments_).decode() if step.arguments is None else step.arguments
            self._stop = "tools"
            yield ToolCallStarted(block=block, name=step.call)
            for piece in self._cut(arguments, step.pieces or 3):
                yield ToolCallDelta(block=block, text=piece)
            call = Call(id=CallId(f"call_{self._place}_{block}"), name=step.call, arguments=arguments)
            yield ToolCallEnded(block=block, call=call)
        elif step.search is not None:
            yield SearchStarted(block=block, query=step.search)
            yield SearchEnded(block=block, query=step.search, opaque={"scripted": True})
        elif step.notice is not None:
            yield ProviderNotice(name=step.notice, message=step.message)

    def end(self, request: ModelRequest) -> Iterator[ModelEvent]:
        read = sum(len(str(block)) for message in request.messages for block in message.blocks)
        yield UsageSeen(
            usage=self._usage
            or Usage(input_tokens=(len(request.system) + read) // 4 + 1, output_tokens=self._characters // 4 + 1)
        )
        yield ReplyEnded(reason=self._stop, word=self._stop)

    def _cut(self, text: str, pieces: int) -> list[str]:
        self._characters += len(text)
        if pieces <= 0:
            return re.findall(r"\S+\s*|\s+", text)
        size = max(1, -(-len(text) // pieces))
        return [text[start : start + size] for start in range(0, len(text), size)]
