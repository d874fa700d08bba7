"""The published JSON schemas of ACP, as a judge of every message that we send."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parent / "protocol" / "acp"
UPDATES = {1: "SessionNotification", 2: "UpdateSessionNotification"}


@cache
def _definitions(version: int) -> dict[str, Any]:
    return json.loads((FOLDER / f"schema-v{version}.json").read_text())["$defs"]


@cache
def _validator(version: int, name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _definitions(version)})


@cache
def _by_method(version: int, ending: str) -> dict[str, str]:
    """The names of the types of requests or of their answers, by method."""
    return {
        schema["x-method"]: name
        for name, schema in _definitions(version).items()
        if "x-method" in schema and name.endswith(ending)
    }


def check_message(version: int, message: dict[str, Any], answered: str = "") -> None:
    """Raises `ValidationError` for a message of ours that the schema of the version does not allow.

    `answered` is the method of the request that it answers.
    """
    if message.get("method") == "session/update":
        _check_update(version, message["params"])
    elif "method" in message and "id" in message:
        _validator(version, _by_method(version, "Request")[message["method"]]).validate(message["params"])
    elif "method" in message:
        assert message["method"] == "$/cancel_request", message
    elif "error" in message:
        _validator(version, "Error").validate(message["error"])
    elif answered:
        name = _by_method(version, "Response").get(answered, "NewSessionResponse")  # session/fork: not in the schema
        _validator(version, name).validate(message["result"])


def _check_update(version: int, params: dict[str, Any]) -> None:
    _validator(version, UPDATES[version]).validate(params)
    kinds = {tag for variant in _variants(version) for tag in _tags(variant)}
    assert params["update"]["sessionUpdate"] in kinds, params


@cache
def _variants(version: int) -> list[Any]:
    schema = _definitions(version)["SessionUpdate"]
    return schema.get("oneOf") or schema["anyOf"]


def _tags(variant: dict[str, Any]) -> list[str]:
    tag = variant.get("properties", {}).get("sessionUpdate", {})
    return [tag["const"]] if "const" in tag else []
