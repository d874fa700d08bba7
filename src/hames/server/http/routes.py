"""The table of endpoints: what can be asked over HTTP, in one place, for the router and for the description."""

import logging
from collections.abc import Iterable, Sequence
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hames.domain.errors import HarnessError
from hames.domain.json import Json
from hames.domain.roles import Role
from hames.domain.value import Value
from hames.server.guard.identities import PRINCIPAL
from hames.server.http.reply import Handler, HttpRefusal, error_reply, failure
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""All of them: a method that a path does not have is answered where the path is known."""


class Endpoint(Value):
    """`body` and `answer` are the types of the JSON that goes in and comes out; `media` where it is not JSON."""

    method: str
    path: str
    says: str
    handle: Handler
    needs: Role | Literal["nothing"]
    """The least role that may ask for it. `nothing`: also somebody who is not signed in."""
    body: Json = None
    answer: Json = None
    media: str = "application/json"
    code: int = 200
    query: tuple[str, ...] = ()


def endpoint(route: str, handle: Handler, *, needs: Role | Literal["nothing"] | None = None, **more: Json) -> Endpoint:
    """`route` is a method and a path: `GET /threads/{id}`. The handler's docstring says what it is for.

    Whoever may look may GET; for anything else the role has to be named.
    """
    method, _, path = route.partition(" ")
    if needs is None:
        if method != "GET":
            raise TypeError(f"{route!r} does not say which role it needs")
        needs = "observer"
    says = (handle.__doc__ or "").strip().removesuffix(".")
    return Endpoint(method=method, path=path, handle=handle, says=says, needs=needs, **more)


def principal_of(request: Request) -> Principal:
    """Who asks. The guard has looked before any endpoint is reached."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def routes(endpoints: Sequence[Endpoint]) -> list[Route]:
    """One route per path; a method it does not have is 405."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [Route(path, _by_method(methods), methods=METHODS) for path, methods in paths.items()]


def _by_method(methods: dict[str, Endpoint]) -> Handler:
    async def answer(request: Request) -> Response:
        path = request.url.path
        endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            takes = " or ".join(methods)
            refusal = failure(405, f"{path} takes {takes}", "BadRequest", path=path)
            refusal.headers["allow"] = ", ".join(methods)
            return refusal
        try:
            if endpoint.needs != "nothing":
                principal_of(request).require(endpoint.needs)
            return await endpoint.handle(request)
        except HttpRefusal as why:
            return failure(why.code, str(why), why.info, path=path)
        except HarnessError as error:
            return error_reply(error, path=path)
        except Exception:
            log.exception("request.crashed", extra={"path": endpoint.path})
            return failure(500, "internal error; the log has the details", "InternalServerError", path=path)

    return answer


def openapi_description(endpoints: Iterable[Endpoint], *, version: str) -> Json:
    """The table as OpenAPI 3.1."""
    import msgspec

    table = list(endpoints)
    types = [kind for endpoint in table for kind in (endpoint.body, endpoint.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Json]] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path.replace(":path}", "}"), {})[endpoint.method.lower()] = _operation(
            endpoint, by_type
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hames", "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, by_type: dict[int, Json]) -> Json:
    content: Json = {endpoint.media: {"schema": by_type[id(endpoint.answer)]} if endpoint.answer is not None else {}}
    told: dict[str, Json] = {
        "summary": endpoint.says,
        "responses": {str(endpoint.code): {"description": "done", "content": content}},
    }
    names = [word[1:-1].partition(":")[0] for word in endpoint.path.split("/") if word.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in endpoint.query]
    if parameters:
        told["parameters"] = parameters
    if endpoint.body is not None:
        told["requestBody"] = {"content": {"application/json": {"schema": by_type[id(endpoint.body)]}}}
    return told
