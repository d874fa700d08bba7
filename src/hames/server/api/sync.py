"""sync over a WebSocket: one connection is one thread; commands come in, the state goes out.

A client may come and go as it likes. Nothing it does or fails to do stops a run, but for `cancel`.
"""

import logging
from contextlib import nullcontext
from urllib.parse import parse_qs

from hames.codecs.jsontext import encode
from hames.core.engine import Engine
from hames.domain.errors import HarnessError, NotFound, TurnNotFound
from hames.protocols.sync import commands
from hames.protocols.sync import messages as m
from hames.protocols.sync.inbound import Refused, decode
from hames.server.clients import SyncClient
from hames.server.fanout import Hub
from hames.server.http.uploads import Uploads
from hames.server.service import Service
from hames.server.websocket.socket import BROKEN, NO_THREAD, POLICY, RESTARTS, Receive, Scope, Send, Socket

log = logging.getLogger(__name__)

BAD_MESSAGES = 20
"""So many in a row, and it is no accident."""


class SyncSocket:
    """The endpoint."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = Socket(scope, receive, send)
        await socket.accept()
        try:
            asked = parse_qs(scope["query_string"].decode("latin-1"))
            thread_id = await self._service.chosen(asked.get("thread", [""])[0])
            async with self._service.hubs.looking(thread_id) as hub:
                # A page is ours and can be asked; of anybody else we know only when it says so, or does it.
                answers = _is_page(scope) or asked.get("answers") == ["1"]
                client = hub.attach_sync(socket.wire, answers=answers)
                hears = asked.get("threads") == ["1"]
                try:
                    with self._service.news.telling(client) if hears else nullcontext():
                        await _Conversation(self._service.engine, self._service.uploads, hub, client).listen(socket)
                finally:
                    hub.detach_sync(client)
        except NotFound as error:
            socket.close(NO_THREAD, str(error)[:100])
        except HarnessError as error:
            socket.close(RESTARTS, str(error)[:100])
        except Exception:
            log.exception("sync.crashed")
            socket.close(BROKEN, "internal error")
            raise


class _Conversation:
    def __init__(self, engine: Engine, uploads: Uploads, hub: Hub, client: SyncClient) -> None:
        self._engine = engine
        self._uploads = uploads
        self._hub = hub
        self._thread_id = hub.thread_id
        self._client = client

    async def listen(self, socket: Socket) -> None:
        bad = 0
        async for text in socket.messages():
            try:
                if text is None:
                    raise Refused("messages must be text")
                given = decode(text)
            except Refused as why:
                bad += 1
                self._refuse(str(why), why.submit_id)
                if bad > BAD_MESSAGES:
                    socket.close(POLICY, "too many invalid messages")
                    return
                continue
            bad = 0
            for command in given:
                await self._obey(command)

    async def _obey(self, command: m.SyncCommand) -> None:
        submit_id = command.id if isinstance(command, m.Submit | m.Steer) else None
        try:
            await self._execute(command)
        except HarnessError as error:
            self._refuse(str(error), submit_id)
        except Exception:
            log.exception("command.crashed", extra={"command": type(command).__name__})
            self._refuse("internal error; the log has the details", submit_id)

    async def _execute(self, given: m.SyncCommand) -> None:
        if isinstance(given, m.Approve):
            self._client.answers = True
            self._hub.count_answers()
        try:
            await self._engine.execute(commands.command(given, self._thread_id, self._uploads.path))
        except TurnNotFound:
            state = self._engine.loaded(self._thread_id)
            instead = commands.without_turn(given, self._thread_id, state, self._uploads.path)
            if instead is None:
                raise
            for command in instead:
                await self._engine.execute(command)

    def _refuse(self, why: str, submit_id: str | None) -> None:
        refusal = m.ErrorMessage(message=why) if submit_id is None else m.ErrorMessage(message=why, submit_id=submit_id)
        self._client.say(encode(refusal))


def _is_page(scope: Scope) -> bool:
    return any(name == b"origin" for name, _ in scope["headers"])
