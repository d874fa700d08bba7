"""Builds the messages of a model request from a thread's state. Pure.

Valid after anything: an interrupt, a crash, a failed tool. Every call has its
result in the message after it, because model services refuse a history without.
"""

import base64
from collections import defaultdict
from collections.abc import Iterator, Sequence

from hames.core.earlier_results import result_path
from hames.core.kept_facts import kept_facts
from hames.core.shortening import cut, cut_arguments, extract
from hames.domain import items, pictures, request
from hames.domain.events import ContextTrimmed
from hames.domain.ids import CallId, TurnId
from hames.domain.json import NOTHING
from hames.domain.output_schema import request_text
from hames.domain.state import ThreadState, Turn

INTERRUPTED = "interrupted; it may have run"
NOT_EXECUTED = "not executed: an earlier call failed or the turn ended"
SUMMARY = "The conversation so far was summarised to save space. The summary:\n\n"
PICTURE_LEFT_OUT = request.TextBlock(text="(a picture, left out to save space)")

TOOL_ITEMS = (
    items.CommandExecution,
    items.FileChange,
    items.McpToolCall,
    items.WebSearch,
    items.Plan,
    items.ToolCall,
    items.Artifact,
)


Spoken = tuple[str, list[request.Block]]
"""A role and what it said."""


class Memory:
    """What finished turns said, so that a long thread is not read anew for every request."""

    def __init__(self) -> None:
        self._turns: dict[TurnId, list[Spoken]] = {}
        self._trimmed: ContextTrimmed | None = None
        self._kept: tuple[items.Compaction | None, list[str]] = None, []
        self.last: tuple[tuple[Turn, ...], ContextTrimmed | None, tuple[request.Message, ...]] = (), None, ()
        """The last messages, and what they were made from: several ask for them before each request."""

    def kept_facts(self, turns: Sequence[Turn], compaction: items.Compaction) -> list[str]:
        """They are the same until the next compaction."""
        if self._kept[0] is not compaction:
            self._kept = compaction, kept_facts(turns, compaction)
        return self._kept[1]

    def said(self, turn: Turn, trim: "Trim") -> list[Spoken]:
        if turn.status == "running":
            return list(_turn(turn, 0, trim))
        if trim.event is not self._trimmed:
            self._turns, self._trimmed = {}, trim.event
        if turn.id not in self._turns:
            self._turns[turn.id] = list(_turn(turn, 0, trim))
        return self._turns[turn.id]


class Trim:
    """How much of each step the model is still shown."""

    def __init__(self, state: ThreadState) -> None:
        self.event = state.trimmed
        self.max_chars = 0
        self._older: frozenset[TurnId] = frozenset()
        self._results_kept: frozenset[CallId] = frozenset()
        if self.event is None:
            return
        self.max_chars = self.event.max_chars
        ids = [turn.id for turn in state.turns]
        last = ids.index(self.event.turn_id) if self.event.turn_id in ids else -1
        self._older = frozenset(ids[: max(last, 0)])
        results: list[CallId] = []
        for turn in reversed(state.turns[: last + 1]):
            results += [one.call.id for one in reversed(turn.calls) if self.covers(turn, one.step)]
            if len(results) >= self.event.results:
                break
        self._results_kept = frozenset(results[: self.event.results])

    def covers(self, turn: Turn, step: int) -> bool:
        if self.event is None:
            return False
        return turn.id in self._older or (turn.id == self.event.turn_id and step <= self.event.step)

    def block(self, block: request.Block, item: items.ToolItem | None = None) -> request.Block:
        """A block of a step that is covered. `item`: whose result it is."""
        match block:
            case request.ResultBlock(call=call, text=text):
                name = result_path(item)
                short = self._cut(text, name) if call.id in self._results_kept else extract(text, name)
                pictures = block.pictures if call.id in self._results_kept and not self.max_chars else ()
                return request.ResultBlock(call=call, text=short, failed=block.failed, pictures=pictures)
            case request.TextBlock(text=text):
                return request.TextBlock(text=self._cut(text))
            case request.CallBlock(call=call) if self.max_chars:
                return request.CallBlock(call=cut_arguments(call, self.max_chars))
            case request.PictureBlock() if self.max_chars:
                return PICTURE_LEFT_OUT
            case _:
                return block

    def _cut(self, text: str, name: str = "") -> str:
        return cut(text, self.max_chars, name) if self.max_chars else text


def messages(state: ThreadState, memory: Memory | None = None) -> tuple[request.Message, ...]:
    """Roles alternate; neighbours of one role are joined."""
    memory = memory or Memory()
    turns, trimmed, made = memory.last
    if turns is not state.turns or trimmed is not state.trimmed or not turns:
        made = _messages(state, memory)
        memory.last = state.turns, state.trimmed, made
    return made


def _messages(state: ThreadState, memory: Memory) -> tuple[request.Message, ...]:
    joined: list[Spoken] = []
    for role, blocks in _spoken(state, memory):
        if not blocks:
            continue
        if joined and joined[-1][0] == role:
            joined[-1][1].extend(blocks)
        else:
            joined.append((role, list(blocks)))
    if joined and joined[0][0] == "assistant":  # a summary that lost its prompt
        joined.insert(0, ("user", [request.TextBlock(text="Go on.")]))
    return tuple(request.Message(role="user" if role == "user" else "assistant", blocks=tuple(b)) for role, b in joined)


def _spoken(state: ThreadState, memory: Memory) -> Iterator[Spoken]:
    start, compaction = _beginning(state)
    trim = Trim(state)
    if compaction is not None:
        kept = memory.kept_facts(state.turns[: start + 1], compaction)
        yield "user", [request.TextBlock(text="\n\n".join([SUMMARY + compaction.summary, *kept]))]
    for number, turn in enumerate(state.turns[start:]):
        after = turn.items.index(compaction) + 1 if compaction is not None and number == 0 else 0
        if after:  # the prompt that is being worked on stays as it was said
            said = [item for item in turn.items[:after] if isinstance(item, items.UserMessage)]
            prompts = [block for item in said for block in _prompt_blocks(turn, item)]
            yield "user", [trim.block(block) for block in prompts] if trim.covers(turn, 0) else prompts
            yield from _turn(turn, after, trim)
        else:
            yield from memory.said(turn, trim)


def _beginning(state: ThreadState) -> tuple[int, items.Compaction | None]:
    for number in range(len(state.turns) - 1, -1, -1):
        for item in reversed(state.turns[number].items):
            # One without a summary was made by another agent, which keeps its own history short.
            if isinstance(item, items.Compaction) and item.status == "completed" and item.summary:
                return number, item
    return 0, None


class _Step:
    """One model reply and what it caused."""

    def __init__(self) -> None:
        self.said: list[tuple[int, request.Block]] = []
        self.calls: list[items.Call] = []
        self.answers: dict[CallId, items.ToolItem] = {}
        self.added: list[tuple[float, list[request.Block]]] = []
        """What users and the harness said meanwhile, and where among the items."""


def _turn(turn: Turn, after: int, trim: Trim) -> Iterator[Spoken]:
    """Step by step: what the model said and asked for, then what came back, then what was added to it."""
    steps: defaultdict[int, _Step] = defaultdict(_Step)
    for position, item in enumerate(turn.items[after:], start=after):
        step = steps[item.step]
        if isinstance(item, TOOL_ITEMS) and item.call_id:
            step.answers[item.call_id] = item
        elif isinstance(item, items.UserMessage):
            step.added.append((position, _prompt_blocks(turn, item)))
        elif (block := _said(item)) is not None:
            step.said.append((position, block))
    for called in turn.calls:
        if called.position >= after:
            step = steps[called.step]
            step.calls.append(called.call)
            step.said.append((called.position, request.CallBlock(call=called.call)))
    for added in turn.context:
        if added.position >= after:
            # Before the first step it goes in front of the prompt, elsewhere behind what came before it.
            place = -1 if added.step == 0 else added.position - 0.5
            steps[added.step].added.append((place, [request.TextBlock(text=added.text)]))
    for number, step in sorted(steps.items()):
        if number in turn.void_steps:  # what the user said meanwhile was said all the same
            step.said, step.calls = [], []
        step.said.sort(key=lambda pair: (pair[0], isinstance(pair[1], request.CallBlock)))
        step.added.sort(key=lambda pair: pair[0])
        said: list[request.Block] = [block for _, block in step.said]
        back: list[request.Block] = [_result_block(call, step.answers.get(call.id)) for call in step.calls]
        back += [block for _, blocks in step.added for block in blocks]
        if trim.covers(turn, number):
            said = [trim.block(block) for block in said]
            back = [trim.block(block, _answer(step, block)) for block in back]
        yield "assistant", said
        yield "user", back


def _answer(step: _Step, block: request.Block) -> items.ToolItem | None:
    return step.answers.get(block.call.id) if isinstance(block, request.ResultBlock) else None


def _result_block(call: items.Call, item: items.ToolItem | None) -> request.ResultBlock:
    result = _result(item)
    return request.ResultBlock(call=call, text=result.text, failed=result.failed, pictures=result.pictures)


def _said(item: items.Item) -> request.Block | None:
    match item:
        case items.AgentMessage(text=text) if text.strip():
            return request.TextBlock(text=text)
        case items.Reasoning(opaque=opaque) if opaque is not None:
            return request.ReasoningBlock(provider=item.provider, text=item.text, opaque=opaque)
        case items.WebSearch(opaque=opaque) if opaque is not None:
            return request.SearchBlock(provider=item.provider, opaque=opaque)
        case _:
            return None


def _result(item: items.ToolItem | None) -> items.ToolResult:
    if item is None:
        return items.ToolResult(text=NOT_EXECUTED, failed=True)
    if item.result is None:
        said = f"\n{item.output}" if isinstance(item, items.CommandExecution) and item.output else ""
        return items.ToolResult(text=INTERRUPTED + said[-8000:], failed=True)
    return item.result


def _prompt_blocks(turn: Turn, message: items.UserMessage) -> list[request.Block]:
    """What a user said; behind the first message of a turn, what its answer has to look like."""
    blocks = _user_blocks(message)
    if turn.output_schema is not NOTHING and message is turn.items[0]:
        blocks.append(request.TextBlock(text=request_text(turn.output_schema)))
    return blocks


def _user_blocks(message: items.UserMessage) -> list[request.Block]:
    blocks: list[request.Block] = []
    local, attachments = iter(message.pictures), iter(message.attachments)
    for part in message.content:
        match part:
            case items.TextInput(text=text):
                if text.strip():
                    blocks.append(request.TextBlock(text=text))
            case items.ImageInput(url=url):
                blocks.append(_picture_by_url(url))
            case items.LocalImageInput():
                if (picture := next(local, None)) is not None:
                    blocks.append(request.PictureBlock(picture=picture))
            case items.FileInput(path=path):
                blocks.append(request.TextBlock(text=f'<file path="{path}">\n{next(attachments, "")}\n</file>'))
    return blocks or [request.TextBlock(text="(nothing)")]


def _picture_by_url(url: str) -> request.Block:
    """A picture no service would take is told in words: refused once, it would be refused with every later request."""
    head, comma, data = url.partition(",")
    head = head.lower()
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return request.PictureBlock(url=url)
    try:
        shape = pictures.shape(base64.b64decode(data, validate=True))
    except ValueError:
        shape = None
    if shape is None or shape.complaint:
        return request.TextBlock(
            text=f"(a picture that cannot be shown: {shape.complaint if shape else 'it cannot be read'})"
        )
    return request.PictureBlock(picture=items.Picture(media_type=shape.media_type, base64=data))
