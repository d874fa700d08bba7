"""Attempts on files: outside, in the workspace where another program would run them, and secrets."""

import os
from collections.abc import Iterable

from hames.sandbox.proof.attempts.helpers import Attempt, AttemptFailed, Targets, read_canary, there_and_back, write


def write_through_a_link_in_the_workspace(stage: Targets) -> None:
    os.symlink(stage["out"], f"{stage['ws']}/way-out")
    write(f"{stage['ws']}/way-out/through-link")


def replace_the_git_configuration(stage: Targets) -> None:
    write(f"{stage['ws']}/other-config", "[core]\n\tfsmonitor = escaped\n")
    os.rename(f"{stage['ws']}/other-config", f"{stage['ws']}/.git/config")


def redirect_the_repository(stage: Targets) -> None:
    os.mkdir(f"{stage['ws']}/elsewhere")
    write(f"{stage['ws']}/elsewhere/config", "[core]\n\tfsmonitor = escaped\n")
    path = f"{stage['ws']}/.git/commondir"
    if os.path.exists(path):
        os.unlink(path)
    write(path, "../elsewhere\n")


def hard_link_the_git_configuration(stage: Targets) -> None:
    os.link(f"{stage['ws']}/.git/config", f"{stage['ws']}/hard")
    write(f"{stage['ws']}/hard", "# escaped")


def make_an_agent_directory(stage: Targets) -> None:
    os.makedirs(f"{stage['ws']}/.claude", exist_ok=True)
    write(f"{stage['ws']}/.claude/settings.json")


def make_an_agent_file(stage: Targets) -> None:
    path = f"{stage['ws']}/.mcp.json"
    if os.path.isdir(path):
        os.chmod(path, 0o755)
        os.rmdir(path)
    write(path)


def make_an_agent_file_by_rename(stage: Targets) -> None:
    write(f"{stage['ws']}/innocent")
    os.rename(f"{stage['ws']}/innocent", f"{stage['ws']}/.mcp.json")


def make_editor_tasks(stage: Targets) -> None:
    os.makedirs(f"{stage['ws']}/.vscode", exist_ok=True)
    os.chmod(f"{stage['ws']}/.vscode", 0o755)
    write(f"{stage['ws']}/.vscode/tasks.json")


def replace_an_agent_link(stage: Targets) -> None:
    os.unlink(f"{stage['ws']}/.gemini")
    os.mkdir(f"{stage['ws']}/.gemini")
    write(f"{stage['ws']}/.gemini/settings.json")


def git_directory(path: str) -> None:
    for name in ("hooks", "objects", "refs"):
        os.makedirs(f"{path}/{name}")
    write(f"{path}/HEAD", "ref: refs/heads/main\n")


def plant_a_nested_repository(stage: Targets) -> None:
    git_directory(f"{stage['ws']}/nested/.git")
    write(f"{stage['ws']}/nested/.git/hooks/pre-commit")
    os.chmod(f"{stage['ws']}/nested/.git/hooks/pre-commit", 0o755)


def plant_settings_of_a_nested_repository(stage: Targets) -> None:
    git_directory(f"{stage['ws']}/a/b/c/d/e/f/.git")
    write(f"{stage['ws']}/a/b/c/d/e/f/.git/config", "[core]\n\tfsmonitor = escaped\n")


def plant_a_bare_repository(stage: Targets) -> None:
    git_directory(f"{stage['ws']}/bare")
    write(f"{stage['ws']}/bare/config", "[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = escaped\n")


def plant_a_command_in_a_paused_rebase(stage: Targets) -> None:
    os.mkdir(f"{stage['ws']}/.git/rebase-merge")
    write(f"{stage['ws']}/.git/rebase-merge/git-rebase-todo", "exec escaped\n")


def lead_git_out_of_the_workspace(stage: Targets) -> None:
    os.mkdir(f"{stage['ws']}/elsewhere-below")
    write(f"{stage['ws']}/elsewhere-below/.git", f"gitdir: {stage['out']}/git\n")


def leave_a_set_uid_program(stage: Targets) -> None:
    write(f"{stage['ws']}/set-uid")
    os.chmod(f"{stage['ws']}/set-uid", 0o6755)


def read_a_system_secret(*paths: str) -> None:
    for path in paths:
        try:
            with open(path, "rb") as file:
                if file.read():
                    return
        except OSError:
            continue
    raise AttemptFailed


def read_one_of(paths: Iterable[str], stage: Targets) -> None:
    for path in paths:
        try:
            read_canary(f"{stage['home']}/{path}", stage)
        except (OSError, AttemptFailed):
            continue
        return
    raise AttemptFailed


def search_the_home_directory(stage: Targets) -> None:
    walk = os.walk(stage["home"])
    read_one_of(
        (os.path.relpath(f"{place}/{name}", stage["home"]) for place, _, names in walk for name in names), stage
    )


def write_through_a_hard_link_to_an_object(stage: Targets) -> None:
    path = f"{stage['ws']}/.git/objects/aa/object"
    os.chmod(path, 0o644)
    write(path)


def make_settings_of_the_harness(stage: Targets) -> None:
    os.makedirs(os.path.dirname(stage["missing_settings"]), exist_ok=True)
    write(stage["missing_settings"])


def make_a_huge_file(stage: Targets) -> None:
    path = f"{stage['ws']}/huge"
    try:
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    finally:
        if os.path.exists(path):
            os.unlink(path)


_FILES: dict[str, Attempt] = {
    "create_a_file_outside": lambda stage: write(f"{stage['out']}/created"),
    "append_to_a_file_outside": lambda stage: write(f"{stage['out']}/appended"),
    "truncate_a_file_outside": lambda stage: os.truncate(f"{stage['out']}/truncated", 0),
    "rename_a_file_outside": lambda stage: os.rename(f"{stage['out']}/renamed", f"{stage['out']}/renamed-away"),
    "move_a_file_out_of_its_directory": lambda stage: os.rename(f"{stage['out']}/moved", f"{stage['ws']}/moved"),
    "remove_a_file_outside": lambda stage: os.unlink(f"{stage['out']}/removed"),
    "make_a_directory_outside": lambda stage: os.mkdir(f"{stage['out']}/made"),
    "make_a_link_outside": lambda stage: os.symlink("/etc/passwd", f"{stage['out']}/symlinked"),
    "hard_link_a_file_outside": lambda stage: os.link(f"{stage['out']}/linked", f"{stage['ws']}/linked"),
    "change_a_mode_outside": lambda stage: os.chmod(f"{stage['out']}/chmodded", 0o777),
    "change_a_time_outside": lambda stage: os.utime(f"{stage['out']}/touched", (1, 1)),
    "set_an_attribute_outside": lambda stage: os.setxattr(f"{stage['out']}/attributed", "user.escaped", b"1"),
    "make_a_fifo_outside": lambda stage: os.mkfifo(f"{stage['out']}/fifo"),
    "write_through_a_link_in_the_workspace": write_through_a_link_in_the_workspace,
    "write_through_the_root_of_a_process": lambda stage: write(f"/proc/1/root{stage['out']}/through-root"),
    "write_through_a_directory_of_a_process": lambda stage: write(f"/proc/{stage['victim']}/cwd/through-cwd"),
}

_GUARD_RAILS: dict[str, Attempt] = {
    "plant_a_git_hook": lambda stage: write(f"{stage['ws']}/.git/hooks/pre-commit"),
    "change_the_git_configuration": lambda stage: write(
        f"{stage['ws']}/.git/config", "\n[core]\n\tfsmonitor = escaped\n"
    ),
    "replace_the_git_configuration": replace_the_git_configuration,
    "replace_the_repository": lambda stage: there_and_back(f"{stage['ws']}/.git"),
    "redirect_the_repository": redirect_the_repository,
    "change_hooks_of_another_directory": lambda stage: write(f"{stage['ws']}/.husky/pre-commit"),
    "replace_hooks_of_another_directory": lambda stage: there_and_back(f"{stage['ws']}/.husky"),
    "change_an_included_git_configuration": lambda stage: write(f"{stage['ws']}/tools/git/shared.config"),
    "replace_the_parent_of_an_included_git_configuration": lambda stage: there_and_back(f"{stage['ws']}/tools"),
    "hard_link_the_git_configuration": hard_link_the_git_configuration,
    "write_to_the_logs_of_the_harness": lambda stage: write(f"{stage['ws']}/.harness/threads/forged"),
    "make_an_agent_directory": make_an_agent_directory,
    "make_an_agent_file": make_an_agent_file,
    "make_an_agent_file_by_rename": make_an_agent_file_by_rename,
    "make_editor_tasks": make_editor_tasks,
    "change_an_agent_configuration": lambda stage: write(f"{stage['ws']}/.codex/config.toml"),
    "replace_an_agent_configuration": lambda stage: there_and_back(f"{stage['ws']}/.codex"),
    "replace_an_agent_link": replace_an_agent_link,
    "change_a_shell_start_file": lambda stage: write(f"{stage['ws']}/.bashrc"),
    "rename_the_workspace": lambda stage: there_and_back(stage["ws"]),
}

_LATER: dict[str, Attempt] = {
    "plant_a_nested_repository": plant_a_nested_repository,
    "plant_settings_of_a_nested_repository": plant_settings_of_a_nested_repository,
    "plant_a_bare_repository": plant_a_bare_repository,
    "plant_a_command_in_a_paused_rebase": plant_a_command_in_a_paused_rebase,
    "lead_git_out_of_the_workspace": lead_git_out_of_the_workspace,
    "leave_a_set_uid_program": leave_a_set_uid_program,
}

_LINKS: dict[str, Attempt] = {
    "write_through_a_hard_link": lambda stage: write(f"{stage['ws']}/.venv/lib/module.py"),
    "change_a_mode_through_a_hard_link": lambda stage: os.chmod(f"{stage['ws']}/.venv/lib/mode.py", 0o777),
    "write_through_a_hard_link_to_an_object": write_through_a_hard_link_to_an_object,
}

_OWN: dict[str, Attempt] = {
    "read_the_moved_state_of_the_harness": lambda stage: read_canary(f"{stage['moved_state']}/token", stage),
    "change_the_moved_state_of_the_harness": lambda stage: write(f"{stage['moved_state']}/forged"),
    "replace_the_moved_state_of_the_harness": lambda stage: there_and_back(stage["moved_state"]),
    "make_settings_of_the_harness": make_settings_of_the_harness,
    "make_a_huge_file": make_a_huge_file,
}

_SECRETS: dict[str, Attempt] = {
    "read_a_private_key": lambda stage: read_canary(f"{stage['home']}/.ssh/id_rsa", stage),
    "read_cloud_credentials": lambda stage: read_canary(f"{stage['home']}/.aws/credentials", stage),
    "read_a_password_file": lambda stage: read_canary(f"{stage['home']}/.netrc", stage),
    "read_the_shadow_file": lambda _: read_a_system_secret("/etc/shadow"),
    "read_a_copy_of_the_shadow_file": lambda _: read_a_system_secret("/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"),
    "read_a_file_at_home": lambda stage: read_one_of(stage["at_home"], stage),
    "read_a_file_beside_a_tool": lambda stage: read_one_of(stage["beside_tools"], stage),
    "search_the_home_directory": search_the_home_directory,
    "read_a_file_outside": lambda stage: read_canary(f"{stage['out']}/notes.txt", stage),
}

FILES = {**_FILES, **_GUARD_RAILS, **_LINKS, **_OWN, **_LATER, **_SECRETS}
