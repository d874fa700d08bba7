"""Settings in the log: what nobody set is left out, what decides about safety is always written, secrets never are."""

import msgspec

from hames.domain.events import SettingsChanged, TurnStarted
from hames.domain.ids import TurnId
from hames.domain.options import ClientTool, Settings, ThreadServer, without_values


def test_settings_that_nobody_made_are_not_in_the_log() -> None:
    written = msgspec.json.decode(msgspec.json.encode(Settings(model="a/b", cwd="/w")))
    assert written.keys() == {"model", "cwd", "approval_policy", "sandbox", "agent"}
    assert "output_schema" not in msgspec.json.decode(msgspec.json.encode(TurnStarted(turn_id=TurnId("t"))))


def test_settings_of_an_older_log_have_the_defaults() -> None:
    settings = msgspec.json.decode(b'{"model":"a/b","cwd":"/w","instructions":"Be brief"}', type=Settings)
    assert (settings.base_instructions, settings.personality) == ("", "none")
    assert (settings.mcp_servers, settings.client_tools) == ((), ())


def test_settings_that_a_client_made_come_back_from_the_log() -> None:
    settings = Settings(
        model="a/b",
        cwd="/w",
        base_instructions="You write poems",
        personality="friendly",
        mcp_servers=(ThreadServer(name="files", command="serve", args=("--all",), env={"KEY": None}),),
        client_tools=(ClientTool(name="look", description="Looks", schema={"type": "object"}),),
    )
    line = msgspec.json.encode(SettingsChanged(settings=settings))
    assert msgspec.json.decode(line, type=SettingsChanged).settings == settings


def test_the_log_keeps_the_names_of_environment_variables_and_headers_and_not_their_values() -> None:
    server = ThreadServer(name="s", url="https://x", env={"A": "secret-a"}, headers={"B": "secret-b"})
    written = msgspec.json.encode(without_values(server))
    assert b"secret" not in written
    assert msgspec.json.decode(written)["env"] == {"A": None}
    assert msgspec.json.decode(written)["headers"] == {"B": None}
