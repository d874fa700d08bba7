"""The body of a refusal, in the shape that the clients of a path read."""

from hames.domain.json import Json
from hames.protocols.sse.errors import Failure, Problem
from hames.server.guard.gate import V1


def failure_body(path: str, status: int, message: str, info: str) -> Json:
    if path.startswith(f"{V1}/"):
        from hames.protocols.openai.errors import http_error

        return http_error(status, message)
    return Failure(error=Problem(message=message, info=info))
