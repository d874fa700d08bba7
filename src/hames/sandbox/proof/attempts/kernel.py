"""Attempts on namespaces, the kernel and other processes."""

import ctypes
import fcntl
import os
import socket
import stat
import struct
import termios
from collections.abc import Iterator

from hames.sandbox.proof.attempts.helpers import (
    Attempt,
    AttemptFailed,
    Targets,
    call,
    canary_in,
    libc_says_yes,
    read_canary,
)

NEW_USER, NEW_NS = 0x10000000, 0x00020000


def found_in_a_process(name: str, words: str) -> None:
    if not any(words.encode() in content for _, content in _processes(name)):
        raise AttemptFailed


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
        if name != "cmdline" or b"attempts/run.py" not in content:
            yield pid, content


def mount_a_file_system(stage: Targets) -> None:
    place = f"{stage['out']}/mnt".encode()
    libc_says_yes("mount", b"none", place, b"tmpfs", 0, None)
    libc_says_yes("umount2", place, 2)


def clone_into_a_user_namespace(_: Targets) -> None:
    if call(56, 220, NEW_USER | 17, 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()


def clone3_into_a_user_namespace(_: Targets) -> None:
    arguments = struct.pack("<8Q", NEW_USER, 0, 0, 0, 17, 0, 0, 0)
    if call(435, 435, arguments, len(arguments)) == 0:
        os._exit(0)
    os.wait()


def enter_a_namespace(stage: Targets) -> None:
    namespace = os.open(f"/proc/{stage['victim']}/ns/mnt", os.O_RDONLY)
    call(308, 268, namespace, 0)


def write_a_sysctl(_: Targets) -> None:
    path = "/proc/sys/vm/swappiness"
    with open(path) as file:
        value = file.read()
    with open(path, "w") as file:
        file.write(value)


def make_a_control_group(stage: Targets) -> None:
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
        name = f"{place}/hames-{stage['token']}"
        try:
            os.mkdir(name)
        except OSError:
            continue
        os.rmdir(name)
        return
    raise AttemptFailed


def set_the_host_name(_: Targets) -> None:
    name = socket.gethostname().encode()
    call(170, 161, name, len(name))


def set_the_clock(_: Targets) -> None:
    # An impossible value: allowed callers are told so, others are told no.
    try:
        call(227, 112, 0, struct.pack("<qq", 0, -1))
    except OSError as error:
        if error.errno != 22:
            raise


def watch_performance_counters(_: Targets) -> None:
    about = struct.pack("<IIQQQQQ", 1, 112, 0, 0, 0, 0, 0x60).ljust(112, b"\0")
    os.close(call(298, 241, about, 0, -1, -1, 0))


def open_a_file_by_handle(_: Targets) -> None:
    handle = struct.pack("<Ii", 8, 1) + bytes(8)
    try:
        call(304, 265, -100, handle, 0)
    except OSError as error:
        if error.errno != 116:  # a stale handle: we were allowed to ask
            raise


def keep_capabilities(_: Targets) -> None:
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    if int(lines["CapEff"], 16) == 0 and int(lines["CapBnd"], 16) == 0:
        raise AttemptFailed


def gain_privileges_by_exec(_: Targets) -> None:
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" in file.read():
            raise AttemptFailed


def own_terminal() -> int:
    _, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    return terminal


def trace_another_process(stage: Targets) -> None:
    call(101, 117, 16, stage["traced"], 0, 0)
    os.waitpid(stage["traced"], 0x40000000)
    call(101, 117, 17, stage["traced"], 0, 0)


def read_the_memory_of_another_process(stage: Targets) -> None:
    local = ctypes.create_string_buffer(8)
    target = struct.pack("<QQ", ctypes.addressof(local), 8)
    remote = struct.pack("<QQ", stage["address"], 8)
    call(310, 270, stage["traced"], target, 1, remote, 1, 0)


def read_an_inherited_descriptor(stage: Targets) -> None:
    for descriptor in range(3, 256):
        try:
            canary_in(os.pread(descriptor, 4096, 0), stage)
            return
        except (OSError, AttemptFailed):
            continue
    raise AttemptFailed


def stay_in_a_session_of_its_own(stage: Targets) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in range(3):
                os.close(descriptor)
            os.execv("/bin/sleep", ["/bin/sleep", stage["survivor"]])
        os._exit(0)
    os.wait()


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
    "write_to_sysfs": lambda _: os.close(os.open("/sys/kernel/mm/transparent_hugepage/enabled", os.O_WRONLY)),
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
    "type_into_a_terminal": lambda _: fcntl.ioctl(own_terminal(), termios.TIOCSTI, b"x"),
    "type_into_a_terminal_with_high_bits": lambda _: call(
        16, 29, own_terminal(), ctypes.c_ulong(termios.TIOCSTI | 1 << 32), b"x"
    ),
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

KERNEL = {**_NAMESPACES, **_KERNEL, **_PROCESSES}
STAYING: dict[str, Attempt] = {"stay_in_a_session_of_its_own": stay_in_a_session_of_its_own}
