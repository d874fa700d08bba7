"""The answer to `initialize`. It is given before anything else is imported: not even `typing` is."""

RESULT: dict[str, object] = {
    "version": "1.0.0",
    "capabilities": {
        "threads": True,
        "turns": True,
        "approvals": True,
        "streaming": True,
        "persistence": True,
    },
}


def plain_answer(params: object, _flags: list[str] | None = None) -> dict[str, object] | None:
    """The result, when these parameters are beyond doubt; otherwise the full decoder judges them."""
    if params is None or params == {}:
        return RESULT
    if not isinstance(params, dict) or params.keys() != {"clientInfo"}:
        return None
    client = params["clientInfo"]
    if not isinstance(client, dict) or not client.keys() <= {"name", "version"} or "name" not in client:
        return None
    return RESULT if all(isinstance(word, str) for word in client.values()) else None
