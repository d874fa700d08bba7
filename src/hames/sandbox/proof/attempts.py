"""Attempts to get out of a sandbox. This file runs inside one, alone, and imports the standard library only.

Each attempt is harmless where it succeeds: it touches only what `proof` put up for it. An attempt that returns
claims to have succeeded; where the effect shows outside, `proof` believes its own eyes instead.
"""

# Most of these are about one system call each.
# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH110, PTH112, PTH119, PTH120, PTH123, PTH208, PTH211

import ctypes
import fcntl
import json
import os
import socket
import stat
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

Stage = dict[str, Any]
Attempt = Callable[[Stage], object]

_X86 = os.uname().machine == "x86_64"
NEW_USER, NEW_NS, NEW_NET = 0x10000000, 0x00020000, 0x40000000


class Failed(Exception):
    """The attempt was refused."""


def call(x86: int, arm: int, *arguments: Any) -> int:
    """A raw system call. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(x86 if _X86 else arm, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write(path: str, text: str = "escaped") -> None:
    with open(path, "a") as file:
        file.write(text)


def there_and_back(path: str) -> None:
    os.rename(path, f"{path}-away")
    os.rename(f"{path}-away", path)


def canary_in(text: bytes, stage: Stage) -> None:
    if stage["canary"].encode() not in text:
        raise Failed


def read_canary(path: str, stage: Stage) -> None:
    with open(path, "rb") as file:
        canary_in(file.read(), stage)


def found_in_a_process(name: str, words: str) -> None:
    if not any(words.encode() in content for _, content in _processes(name)):
        raise Failed


def libc_says_yes(function: str, *arguments: Any) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) < 0:
        raise Failed


def _processes(name: str) -> Iterator[tuple[int, bytes]]:
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        if pid == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                content = file.read()
        except OSError:
            continue
        # Our own command line names the token; what is looked for is another program's.
        if name != "cmdline" or b"attempts.py" not in content:
            yield pid, content


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as talk:
        talk.settimeout(2)
        talk.connect(address)
        talk.send(b"escaped")


def find_a_route_to_the_metadata_address(_: Stage) -> None:
    """Without sending anything there: a datagram socket only looks for a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("169.254.169.254", 80))


def _to_proxy() -> socket.socket:
    """The proxy of a command with network access. Elsewhere there is none to ask."""
    _, found, port = os.environ.get("HTTP_PROXY", "").rpartition(":")
    if not found:
        raise Failed
    return socket.create_connection(("127.0.0.1", int(port)), 2)


def ask_proxy(host: str, port: int) -> None:
    with _to_proxy() as talk:
        talk.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
        if b" 200 " not in talk.recv(64):
            raise Failed


def ask_proxy_over_socks(host: bytes, port: int) -> None:
    with _to_proxy() as talk:
        talk.sendall(b"\x05\x01\x00")
        talk.recv(2)
        talk.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host + struct.pack(">H", port))
        if talk.recv(2)[1:] != b"\x00":
            raise Failed


def write_through_a_link_in_the_workspace(stage: Stage) -> None:
    os.symlink(stage["out"], f"{stage['ws']}/way-out")
    write(f"{stage['ws']}/way-out/through-link")


def mount_a_file_system(stage: Stage) -> None:
    place = f"{stage['out']}/mnt".encode()
    libc_says_yes("mount", b"none", place, b"tmpfs", 0, None)
    libc_says_yes("umount2", place, 2)


def clone_into_a_user_namespace(_: Stage) -> None:
    if call(56, 220, NEW_USER | 17, 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()


def clone3_into_a_user_namespace(_: Stage) -> None:
    arguments = struct.pack("<8Q", NEW_USER, 0, 0, 0, 17, 0, 0, 0)
    if call(435, 435, arguments, len(arguments)) == 0:
        os._exit(0)
    os.wait()


def enter_a_namespace(stage: Stage) -> None:
    namespace = os.open(f"/proc/{stage['victim']}/ns/mnt", os.O_RDONLY)
    call(308, 268, namespace, 0)


def write_a_sysctl(_: Stage) -> None:
    path = "/proc/sys/vm/swappiness"
    with open(path) as file:
        value = file.read()
    with open(path, "w") as file:
        file.write(value)


def write_to_sysfs(_: Stage) -> None:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    os.close(os.open(path, os.O_WRONLY))


def make_a_control_group(stage: Stage) -> None:
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
        name = f"{place}/hames-{stage['token']}"
        try:
            os.mkdir(name)
        except OSError:
            continue
        os.rmdir(name)
        return
    raise Failed


def set_the_host_name(_: Stage) -> None:
    name = socket.gethostname().encode()
    call(170, 161, name, len(name))


def set_the_clock(_: Stage) -> None:
    # An impossible value: allowed callers are told so, others are told no.
    try:
        call(227, 112, 0, struct.pack("<qq", 0, -1))
    except OSError as error:
        if error.errno != 22:
            raise


def watch_performance_counters(_: Stage) -> None:
    about = struct.pack("<IIQQQQQ", 1, 112, 0, 0, 0, 0, 0x60).ljust(112, b"\0")
    os.close(call(298, 241, about, 0, -1, -1, 0))


def open_a_file_by_handle(_: Stage) -> None:
    handle = struct.pack("<Ii", 8, 1) + bytes(8)
    try:
        call(304, 265, -100, handle, 0)
    except OSError as error:
        if error.errno != 116:  # a stale handle: we were allowed to ask
            raise


def keep_capabilities(_: Stage) -> None:
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    if int(lines["CapEff"], 16) == 0 and int(lines["CapBnd"], 16) == 0:
        raise Failed


def gain_privileges_by_exec(_: Stage) -> None:
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" in file.read():
            raise Failed


def type_into_a_terminal(_stage: Stage) -> None:
    _, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    fcntl.ioctl(terminal, termios.TIOCSTI, b"x")


def type_into_a_terminal_with_high_bits(_stage: Stage) -> None:
    _, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    call(16, 29, terminal, ctypes.c_ulong(termios.TIOCSTI | 1 << 32), b"x")


def trace_another_process(stage: Stage) -> None:
    call(101, 117, 16, stage["traced"], 0, 0)
    os.waitpid(stage["traced"], 0x40000000)
    call(101, 117, 17, stage["traced"], 0, 0)


def read_the_memory_of_another_process(stage: Stage) -> None:
    local = ctypes.create_string_buffer(8)
    target = struct.pack("<QQ", ctypes.addressof(local), 8)
    remote = struct.pack("<QQ", stage["address"], 8)
    call(310, 270, stage["traced"], target, 1, remote, 1, 0)


def read_an_inherited_descriptor(stage: Stage) -> None:
    for descriptor in range(3, 256):
        try:
            canary_in(os.pread(descriptor, 4096, 0), stage)
            return
        except (OSError, Failed):
            continue
    raise Failed


def replace_the_git_configuration(stage: Stage) -> None:
    write(f"{stage['ws']}/other-config", "[core]\n\tfsmonitor = escaped\n")
    os.rename(f"{stage['ws']}/other-config", f"{stage['ws']}/.git/config")


def redirect_the_repository(stage: Stage) -> None:
    os.mkdir(f"{stage['ws']}/elsewhere")
    write(f"{stage['ws']}/elsewhere/config", "[core]\n\tfsmonitor = escaped\n")
    path = f"{stage['ws']}/.git/commondir"
    if os.path.exists(path):
        os.unlink(path)
    write(path, "../elsewhere\n")


def hard_link_the_git_configuration(stage: Stage) -> None:
    os.link(f"{stage['ws']}/.git/config", f"{stage['ws']}/hard")
    write(f"{stage['ws']}/hard", "# escaped")


def make_an_agent_directory(stage: Stage) -> None:
    os.makedirs(f"{stage['ws']}/.claude", exist_ok=True)
    write(f"{stage['ws']}/.claude/settings.json")


def make_an_agent_file(stage: Stage) -> None:
    path = f"{stage['ws']}/.mcp.json"
    if os.path.isdir(path):
        os.chmod(path, 0o755)
        os.rmdir(path)
    write(path)


def make_an_agent_file_by_rename(stage: Stage) -> None:
    write(f"{stage['ws']}/innocent")
    os.rename(f"{stage['ws']}/innocent", f"{stage['ws']}/.mcp.json")


def make_editor_tasks(stage: Stage) -> None:
    os.makedirs(f"{stage['ws']}/.vscode", exist_ok=True)
    os.chmod(f"{stage['ws']}/.vscode", 0o755)
    write(f"{stage['ws']}/.vscode/tasks.json")


def replace_an_agent_link(stage: Stage) -> None:
    os.unlink(f"{stage['ws']}/.gemini")
    os.mkdir(f"{stage['ws']}/.gemini")
    write(f"{stage['ws']}/.gemini/settings.json")


def git_directory(path: str) -> None:
    for name in ("hooks", "objects", "refs"):
        os.makedirs(f"{path}/{name}")
    write(f"{path}/HEAD", "ref: refs/heads/main\n")


def plant_a_nested_repository(stage: Stage) -> None:
    git_directory(f"{stage['ws']}/nested/.git")
    write(f"{stage['ws']}/nested/.git/hooks/pre-commit")
    os.chmod(f"{stage['ws']}/nested/.git/hooks/pre-commit", 0o755)


def plant_settings_of_a_nested_repository(stage: Stage) -> None:
    git_directory(f"{stage['ws']}/a/b/c/d/e/f/.git")
    write(f"{stage['ws']}/a/b/c/d/e/f/.git/config", "[core]\n\tfsmonitor = escaped\n")


def plant_a_bare_repository(stage: Stage) -> None:
    git_directory(f"{stage['ws']}/bare")
    write(f"{stage['ws']}/bare/config", "[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = escaped\n")


def plant_a_command_in_a_paused_rebase(stage: Stage) -> None:
    os.mkdir(f"{stage['ws']}/.git/rebase-merge")
    write(f"{stage['ws']}/.git/rebase-merge/git-rebase-todo", "exec escaped\n")


def lead_git_out_of_the_workspace(stage: Stage) -> None:
    os.mkdir(f"{stage['ws']}/elsewhere-below")
    write(f"{stage['ws']}/elsewhere-below/.git", f"gitdir: {stage['out']}/git\n")


def leave_a_set_uid_program(stage: Stage) -> None:
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
    raise Failed


def read_one_of(names: list[str], stage: Stage) -> None:
    for name in names:
        try:
            read_canary(f"{stage['home']}/{name}", stage)
        except (OSError, Failed):
            continue
        return
    raise Failed


def search_the_home_directory(stage: Stage) -> None:
    for directory, _, names in os.walk(stage["home"]):
        for name in names:
            try:
                read_canary(f"{directory}/{name}", stage)
            except (OSError, Failed):
                continue
            return
    raise Failed


def write_through_a_hard_link_to_an_object(stage: Stage) -> None:
    path = f"{stage['ws']}/.git/objects/aa/object"
    os.chmod(path, 0o644)
    write(path)


def make_settings_of_the_harness(stage: Stage) -> None:
    os.makedirs(os.path.dirname(stage["missing_settings"]), exist_ok=True)
    write(stage["missing_settings"])


def make_a_huge_file(stage: Stage) -> None:
    path = f"{stage['ws']}/huge"
    try:
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def stay_in_a_session_of_its_own(stage: Stage) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in range(3):
                os.close(descriptor)
            os.execv("/bin/sleep", ["/bin/sleep", stage["survivor"]])
        os._exit(0)
    os.wait()


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

_NAMESPACES: dict[str, Attempt] = {
    "mount_a_file_system": mount_a_file_system,
    "remount_a_root_writable": lambda stage: libc_says_yes("mount", None, stage["out"].encode(), None, 32 | 4096, None),
    "take_a_cover_away": lambda stage: libc_says_yes("umount2", stage["home"].encode(), 2),
    "open_a_mount_tree": lambda _: call(428, 428, -100, b"/", 1),
    "make_a_mount_by_hand": lambda _: call(430, 430, b"tmpfs", 0),
    "change_the_root": lambda stage: os.chroot(stage["ws"]),
    "make_a_user_namespace": lambda _: call(272, 97, NEW_USER),
    "make_a_mount_namespace": lambda _: call(272, 97, NEW_USER | NEW_NS),
    "clone_into_a_user_namespace": clone_into_a_user_namespace,
    "clone3_into_a_user_namespace": clone3_into_a_user_namespace,
    "enter_a_namespace": enter_a_namespace,
}

_KERNEL: dict[str, Attempt] = {
    "write_a_sysctl": write_a_sysctl,
    "reach_for_sysrq": lambda _: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)),
    "write_to_sysfs": write_to_sysfs,
    "make_a_control_group": make_a_control_group,
    "set_the_host_name": set_the_host_name,
    "set_the_clock": set_the_clock,
    "use_io_uring": lambda _: os.close(call(425, 425, 1, ctypes.create_string_buffer(120))),
    "use_a_keyring": lambda _: call(248, 217, b"user", b"hames-attempt", b"x", 1, -3),
    "load_a_bpf_program": lambda _: os.close(call(321, 280, 0, struct.pack("<IIIIIIII", 2, 4, 4, 1, 0, 0, 0, 0), 32)),
    "watch_performance_counters": watch_performance_counters,
    "handle_page_faults": lambda _: os.close(call(323, 282, 1)),
    "open_a_file_by_handle": open_a_file_by_handle,
    "make_a_device": lambda stage: os.mknod(f"{stage['ws']}/device", 0o666 | stat.S_IFCHR, os.makedev(1, 3)),
    "keep_capabilities": keep_capabilities,
    "gain_privileges_by_exec": gain_privileges_by_exec,
    "type_into_a_terminal": type_into_a_terminal,
    "type_into_a_terminal_with_high_bits": type_into_a_terminal_with_high_bits,
    "open_the_terminal": lambda _: os.close(os.open("/dev/tty", os.O_RDWR)),
}

_PROCESSES: dict[str, Attempt] = {
    "see_another_process": lambda stage: found_in_a_process("cmdline", stage["token"]),
    "kill_another_process": lambda stage: os.kill(stage["victim"], 9),
    "trace_another_process": trace_another_process,
    "be_traced": lambda _: call(101, 117, 0, 0, 0, 0),
    "read_the_memory_of_another_process": read_the_memory_of_another_process,
    "read_the_environment_of_another_process": lambda stage: found_in_a_process("environ", stage["canary"]),
    "find_a_secret_in_the_environment": lambda stage: canary_in("\n".join(os.environ.values()).encode(), stage),
    "read_an_inherited_descriptor": read_an_inherited_descriptor,
    "share_memory_by_key": lambda stage: libc_says_yes("shmget", stage["shm_key"], 0, 0),
    "share_memory_by_name": lambda stage: read_canary(f"/dev/shm/{stage['shm_name']}", stage),
    "read_a_temporary_file_of_others": lambda stage: read_canary(stage["tmp_file"], stage),
}

_NETWORK: dict[str, Attempt] = {
    "connect_to_a_server_on_loopback": lambda stage: _connect(
        socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", stage["tcp"])
    ),
    "connect_to_a_server_on_loopback_v6": lambda stage: _connect(
        socket.AF_INET6, socket.SOCK_STREAM, ("::1", stage["tcp6"])
    ),
    "send_a_datagram": lambda stage: _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", stage["udp"])),
    "connect_to_a_socket_outside": lambda stage: _connect(socket.AF_UNIX, socket.SOCK_STREAM, stage["unix"]),
    "send_to_a_socket_outside": lambda stage: _connect(socket.AF_UNIX, socket.SOCK_DGRAM, stage["unix_dgram"]),
    "connect_to_a_socket_in_the_workspace": lambda stage: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, stage["unix_ws"]
    ),
    "connect_to_an_abstract_socket": lambda stage: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, "\x00" + stage["abstract"]
    ),
    "look_up_a_name": lambda _: socket.getaddrinfo("example.org", 80),
    "find_a_route_to_the_metadata_address": find_a_route_to_the_metadata_address,
    "open_a_raw_socket": lambda _: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "open_a_packet_socket": lambda _: socket.socket(17, socket.SOCK_RAW, 3).close(),
    "open_a_socket_to_the_hypervisor": lambda _: socket.socket(40, socket.SOCK_STREAM).close(),
    "open_a_kernel_crypto_socket": lambda _: socket.socket(38, socket.SOCK_SEQPACKET).close(),
}

_PROXY: dict[str, Attempt] = {
    "ask_the_proxy_for_a_server_on_loopback": lambda stage: ask_proxy("127.0.0.1", stage["tcp"]),
    "ask_the_proxy_for_a_server_by_name": lambda stage: ask_proxy("localhost", stage["tcp"]),
    "ask_the_proxy_for_a_server_in_ipv6": lambda stage: ask_proxy("[::ffff:127.0.0.1]", stage["tcp"]),
    "ask_the_proxy_for_a_server_in_an_odd_spelling": lambda stage: ask_proxy("0x7f.1", stage["tcp"]),
    "ask_the_proxy_for_the_metadata_address": lambda _: ask_proxy("169.254.169.254", 80),
    "ask_the_proxy_over_socks": lambda stage: ask_proxy_over_socks(b"localhost", stage["tcp"]),
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


def _to_socket(name: str) -> Attempt:
    return lambda stage: _connect_through_a_short_name(stage[name])


def _connect_through_a_short_name(path: str) -> None:
    os.chdir(os.path.dirname(path))  # an address has room for 107 bytes
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, os.path.basename(path))


ODD_SOCKETS = ("relative", "dotted", "descriptor", "renamed", "linked", "moved", "newline")
_SOCKETS: dict[str, Attempt] = {
    f"connect_to_a_{name}_socket_{where}": _to_socket(f"{name}_{place}")
    for place, where in (("out", "outside"), ("ws", "in_the_workspace"))
    for name in ODD_SOCKETS
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

_STAYING: dict[str, Attempt] = {
    "stay_in_a_session_of_its_own": stay_in_a_session_of_its_own,
}

ATTEMPTS: dict[str, Attempt] = {
    **_FILES,
    **_NAMESPACES,
    **_KERNEL,
    **_PROCESSES,
    **_NETWORK,
    **_PROXY,
    **_GUARD_RAILS,
    **_LINKS,
    **_OWN,
    **_SOCKETS,
    **_LATER,
    **_SECRETS,
    **_STAYING,
}


def say(name: str, outcome: str) -> None:
    os.write(1, f"{name} {outcome}\n".encode())


def main() -> None:
    """Runs them one by one, each in a process of its own, and prints what they claim."""
    stage = json.loads(sys.argv[1])
    for name, function in ATTEMPTS.items():
        child = os.fork()
        if child == 0:
            try:
                function(stage)
            except (OSError, Failed):
                os._exit(1)
            except BaseException as error:
                say(name, f"broken {error!r}")
                os._exit(2)
            os._exit(0)
        say(name, "claimed" if _status(child) == 0 else "refused")


def _status(child: int) -> int:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.001)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main()
