"""Threads over HTTP: the list, one of them, its past, and the way to a new one."""

import hashlib

import anyio
from msgspec import convert
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hames.codecs.jsontext import encode
from hames.domain.commands import DeleteThread, ListProcesses, ReadContext, ThreadPage
from hames.domain.context_report import ContextReport
from hames.domain.ids import ItemId, ThreadId
from hames.domain.processes import ProcessList
from hames.domain.state import ThreadState, summary
from hames.domain.undo import UndoReport
from hames.protocols.body import parse_number
from hames.protocols.sync import pages as p
from hames.protocols.sync import requests
from hames.protocols.sync.outbound import whole_output
from hames.protocols.sync.processes import ProcessPage, process_page
from hames.protocols.sync.view import view
from hames.server.http.compression import etag_matches
from hames.server.http.pictures import picture
from hames.server.http.reply import ALWAYS, HttpRefusal, reply
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.service import Service

TEXT = "text/plain; charset=utf-8"


class ThreadsApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._engine = service.engine
        self._git = anyio.Lock()

    def endpoints(self) -> list[Endpoint]:
        one = "/threads/{id}"
        return [
            endpoint("GET /threads", self.list, answer=p.ThreadPage, query=("search", "archived", "limit", "cursor")),
            endpoint("POST /threads", self.create, needs="driver", body=p.NewThread, answer=p.ThreadAnswer, code=201),
            endpoint(f"GET {one}", self.get, answer=p.StateAnswer),
            endpoint(f"DELETE {one}", self.delete, needs="driver", code=204),
            endpoint(f"POST {one}/fork", self.fork, needs="driver", body=p.Fork, answer=p.ThreadAnswer, code=201),
            endpoint(f"POST {one}/undo", self.undo, needs="driver", body=p.Undo, answer=p.UndoAnswer),
            endpoint(f"POST {one}/archive", self.archive, needs="driver", body=p.Archive, answer=p.ThreadAnswer),
            endpoint(f"GET {one}/timeline", self.timeline, answer=p.Timeline),
            endpoint(f"GET {one}/git-diff", self.git_diff, answer=p.GitChanges),
            endpoint(f"GET {one}/processes", self.processes, answer=ProcessPage),
            endpoint(f"POST {one}/processes/{{number}}/end", self.end_process, needs="driver", answer=ProcessPage),
            endpoint(f"GET {one}/context", self.context, answer=ContextReport),
            endpoint(f"GET {one}/at/{{seq}}", self.at, answer=p.StateAt, query=("last",)),
            endpoint(f"GET {one}/export", self.export, media="text/markdown", query=("format",)),
            endpoint(f"GET {one}/tools/{{tool}}/output", self.output, media="text/plain"),
            endpoint(f"GET {one}/images/{{message}}/{{number}}", self.image, media="image/png"),
        ]

    async def list(self, request: Request) -> Response:
        """Threads, newest first."""
        page = await self._engine.execute(requests.list_threads(request.query_params))
        assert isinstance(page, ThreadPage)
        rows = tuple(p.row(one, self._engine.loaded(one.id)) for one in page.threads)
        body = encode(p.ThreadPage(threads=rows, next_cursor=page.next_cursor, partial=page.partial))
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {**ALWAYS, "Cache-Control": "no-cache", "ETag": etag}
        if etag_matches(request.headers.get("if-none-match"), etag):
            return Response(b"", 304, headers)
        return Response(body, 200, headers, "application/json")

    async def create(self, request: Request) -> Response:
        """A new thread."""
        command = requests.create_thread(await read_body(request))
        return self._row(await principal_of(request).execute(self._engine, command), 201)

    async def get(self, request: Request) -> Response:
        """The state of a thread."""
        state = await self._service.state(_thread_id(request))
        return reply(p.StateAnswer(rev=state.seq, state=view(state, self._service.offer)))

    async def delete(self, request: Request) -> Response:
        """Delete a thread and everything in it; 409 while it runs a turn."""
        await principal_of(request).execute(self._engine, DeleteThread(thread_id=_thread_id(request)))
        self._service.fanout.thread_deleted()
        return Response(b"", 204, ALWAYS)

    async def fork(self, request: Request) -> Response:
        """A new thread with this one's history."""
        command = requests.fork_thread(await read_body(request), _thread_id(request))
        return self._row(await principal_of(request).execute(self._engine, command), 201)

    async def undo(self, request: Request) -> Response:
        """Take back what a turn did to files, or do it again."""
        command = requests.undo_turn(await read_body(request), _thread_id(request))
        report = await principal_of(request).execute(self._engine, command)
        assert isinstance(report, UndoReport)
        return reply(convert(report, p.UndoAnswer, from_attributes=True))

    async def archive(self, request: Request) -> Response:
        """Archive or unarchive a thread."""
        command = requests.archive_thread(await read_body(request), _thread_id(request))
        return self._row(await principal_of(request).execute(self._engine, command), 200)

    async def timeline(self, request: Request) -> Response:
        """The timeline: one line for every record that is not a delta."""
        return reply(p.timeline(await self._engine.history(_thread_id(request))))

    async def git_diff(self, request: Request) -> Response:
        """The uncommitted changes in the thread's directory."""
        state = await self._service.state(_thread_id(request))
        # One at a time: each starts a sandbox and reads the whole working tree.
        async with self._git:
            return reply(await self._service.extras.git_changes(state.settings.cwd))

    async def processes(self, request: Request) -> Response:
        """The processes that the thread runs in the background, and the last that ended."""
        return await self._processes(request, ListProcesses(thread_id=_thread_id(request)))

    async def end_process(self, request: Request) -> Response:
        """End one of the thread's background processes."""
        number = parse_number(request.path_params["number"], 0, least=1, most=2**31, name="the number")
        return await self._processes(request, ListProcesses(thread_id=_thread_id(request), end=number))

    async def _processes(self, request: Request, command: ListProcesses) -> Response:
        found = await principal_of(request).execute(self._engine, command)
        assert isinstance(found, ProcessList)
        return reply(process_page(found))

    async def context(self, request: Request) -> Response:
        """What fills the window of the thread's model."""
        found = await principal_of(request).execute(self._engine, ReadContext(thread_id=_thread_id(request)))
        assert isinstance(found, ContextReport)
        return reply(found)

    async def at(self, request: Request) -> Response:
        """The state at a record; `last=N` returns only the last N messages."""
        seq = parse_number(request.path_params["seq"], 0, least=1, most=2**53, name="seq")
        history = await self._engine.history(_thread_id(request))
        until = [change for change in history if change.record.seq <= seq]
        if not until or until[-1].record.seq < seq:
            raise HttpRefusal(404, f"the thread has no record {seq}", "Other")
        state = view(until[-1].after, self._service.offer)
        last = parse_number(request.query_params.get("last"), len(state.messages), least=1, most=2**31, name="last")
        skipped = max(0, len(state.messages) - last)
        shown = replace(state, messages=state.messages[skipped:])
        return reply(p.StateAt(rev=seq, at=until[-1].record.at_ms, state=shown, skipped=skipped))

    async def export(self, request: Request) -> Response:
        """The whole thread as a file: markdown, or the log's records as JSON."""
        thread_id, form = _thread_id(request), request.query_params.get("format", "markdown")
        if form == "json":
            body = encode([change.record for change in await self._engine.history(thread_id)])
            media, suffix = "application/json", "json"
        elif form == "markdown":
            body = p.markdown(view(await self._service.state(thread_id), self._service.offer)).encode(errors="replace")
            media, suffix = "text/markdown; charset=utf-8", "md"
        else:
            raise HttpRefusal(400, "format must be markdown or json")
        named = {"Content-Disposition": f'attachment; filename="{thread_id}.{suffix}"'}
        return Response(body, 200, {**ALWAYS, **named}, media)

    async def output(self, request: Request) -> Response:
        """The whole output of a tool call."""
        state = await self._service.state(_thread_id(request))
        name = ItemId(request.path_params["tool"])
        text = whole_output(state, name)
        if text is None:
            raise HttpRefusal(404, f"no tool call {name!r}", "Other")
        return Response(text.encode(errors="replace"), 200, ALWAYS, TEXT)

    async def image(self, request: Request) -> Response:
        """A picture of a user message."""
        state = await self._service.state(_thread_id(request))
        position = parse_number(request.path_params["number"], 0, least=0, most=1000, name="the number")
        found = picture(state, request.path_params["message"], position)
        if found is None:
            raise HttpRefusal(404, "no such picture", "Other")
        media_type, data = found
        headers = {
            **ALWAYS,
            "Cache-Control": "private, max-age=31536000, immutable",
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return Response(data, 200, headers, media_type)

    def _row(self, state: object, code: int) -> Response:
        assert isinstance(state, ThreadState)
        return reply(p.ThreadAnswer(thread=p.row(summary(state), state)), code)


def _thread_id(request: Request) -> ThreadId:
    return ThreadId(request.path_params["id"])
