"""sync over a WebSocket: one connection is one thread, which the address names."""

from urllib.parse import parse_qs

from hames.protocols.session import Session
from hames.protocols.sync.session import SyncSession
from hames.server.api.sockets import SessionSockets
from hames.server.guard.identities import PRINCIPAL
from hames.server.service import Service
from hames.server.websocket.socket import Scope


def sync_sockets(service: Service) -> SessionSockets:
    async def open_session(scope: Scope) -> Session:
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        # A page is ours and can be asked; of anybody else we know only when it says so, or does it.
        is_page = any(name == b"origin" for name, _ in scope["headers"])
        return SyncSession(
            await service.choose_thread(asked.get("thread", [""])[0], scope[PRINCIPAL]),
            service.sync_encoder,
            service.uploads.path,
            can_answer=is_page or asked.get("answers") == ["1"],
            follows_list=asked.get("threads") == ["1"],
        )

    return SessionSockets(open_session, service.fanout.connect)
