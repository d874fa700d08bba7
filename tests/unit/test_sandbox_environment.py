"""What a child finds in its environment."""

from pathlib import Path

from hames.sandbox.processes.environment import SYSTEM_PATH, child_environment, safe_directories, safe_user_path

PARENT = {
    "ANTHROPIC_API_KEY": "sk-secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "BASH_ENV": "/tmp/evil.sh",
    "BASH_FUNC_ls%%": "() { touch PWNED; }",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
    "GITHUB_TOKEN": "secret",
    "GIT_DIR": "/elsewhere",
    "HOME": "/somewhere/else",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "LD_PRELOAD": "/tmp/evil.so",
    "PATH": "/tmp/evil:/usr/bin",
    "PYTHONPATH": "/tmp/evil",
    "RIPGREP_CONFIG_PATH": "rgcfg",
    "SSH_AUTH_SOCK": "/run/ssh",
    "TMPDIR": "/somewhere/tmp",
    "USER": "me",
}
ALLOWED = {
    "GIT_PAGER",
    "GIT_TERMINAL_PROMPT",
    "HAMES_JOB",
    "HOME",
    "LANG",
    "LC_TIME",
    "PAGER",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
}


def test_only_named_variables_pass() -> None:
    child = child_environment(PARENT, home="/home/me", job="j1")
    assert set(child) == ALLOWED
    assert not set(child.values()) & {"sk-secret", "secret", "/tmp/evil.sh"}


def test_the_path_is_fixed_and_chosen_directories_come_first() -> None:
    assert child_environment(PARENT, home="/h", job="j")["PATH"] == ":".join(SYSTEM_PATH)
    chosen = child_environment(PARENT, home="/h", job="j", extra_path=("/opt/node/bin",))
    assert chosen["PATH"] == ":".join(("/opt/node/bin", *SYSTEM_PATH))


def test_a_person_may_name_more() -> None:
    child = child_environment(PARENT, home="/h", job="j", inherit=("GIT_DIR", "NOT_SET"))
    assert child["GIT_DIR"] == "/elsewhere"
    assert "NOT_SET" not in child


def test_behind_walls_caches_and_temporary_files_have_a_place() -> None:
    child = child_environment(PARENT, home="/h", job="j", tmp="/tmp")
    assert (child["TMPDIR"], child["XDG_CACHE_HOME"]) == ("/tmp", "/tmp/.cache")
    assert child_environment(PARENT, home="/h", job="j")["TMPDIR"] == "/somewhere/tmp"


def test_a_directory_that_others_or_the_agent_can_write_to_is_not_put_on_the_path(tmp_path: Path) -> None:
    names = ("mine", "shared", "workspace/bin", "missing")
    mine, shared, inside, missing = (tmp_path / name for name in names)
    for directory in (mine, shared, inside):
        directory.mkdir(parents=True)
    mine.chmod(0o755)
    inside.chmod(0o755)
    shared.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(inside)
    asked = [str(path) for path in (mine, shared, inside, missing, link)] + ["relative/bin", f"{mine}:{shared}"]
    assert safe_directories(asked, writable=[str(tmp_path / "workspace")]) == (str(mine),)


def test_the_users_path_is_kept_in_its_order_as_far_as_it_is_safe_and_visible(tmp_path: Path) -> None:
    tools, hidden, shared, workspace = (tmp_path / name for name in ("tools", "hidden", "shared", "work"))
    for directory in (tools, hidden, shared, workspace / "bin"):
        directory.mkdir(parents=True)
    shared.chmod(0o777)
    path = ":".join(
        map(str, (workspace / "bin", "/usr/bin", "", ".", tools, shared, hidden, tmp_path / "none", "/bin"))
    )
    found = safe_user_path(path, writable=[str(workspace)], is_shown=lambda seen: seen != str(hidden))
    assert found == ("/usr/bin", str(tools), "/bin")
    child = child_environment({"PATH": path}, home="/h", job="j", extra_path=("/opt/x",), user_path=found)
    assert child["PATH"].startswith(f"/opt/x:/usr/bin:{tools}:/bin:")
    assert sorted(child["PATH"].split(":")) == sorted({"/opt/x", str(tools), *SYSTEM_PATH})
