"""The system-call filter, run instruction by instruction the way the kernel runs it."""

import errno
import re
import struct
from pathlib import Path

import pytest

from hames.sandbox.walls.seccomp import DENIED, Machine, build

ALLOWED = "allow"
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}
CLONE = {"x86_64": 56, "aarch64": 220}
IOCTL = {"x86_64": 16, "aarch64": 29}
SOCKET = {"x86_64": 41, "aarch64": 198}
UNSHARE = {"x86_64": 272, "aarch64": 97}
KINDS: tuple[Machine, ...] = ("x86_64", "aarch64")


def verdict(kind: Machine, number: int, *arguments: int, arch: str = "") -> str:
    """What the kernel would answer to one call."""
    given = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("<IIQ6Q", number, ARCHES[arch or kind], 0, *given)
    program = list(struct.iter_unpack("<HBBI", build(kind)))
    at, register = 0, 0
    while True:
        code, then, otherwise, value = program[at]
        at += 1
        match code:
            case 0x20:
                (register,) = struct.unpack_from("<I", data, value)
            case 0x15:
                at += then if register == value else otherwise
            case 0x25:
                at += then if register > value else otherwise
            case 0x45:
                at += then if register & value else otherwise
            case 0x06:
                return _named(value)
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


def _named(value: int) -> str:
    if value == 0x7FFF0000:
        return ALLOWED
    return "kill" if value == 0x80000000 else errno.errorcode[value & 0xFFFF]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DENIED)
def test_denied_calls_are_not_permitted(kind: Machine, name: str) -> None:
    number = DENIED[name][KINDS.index(kind)]
    if number is not None:
        assert verdict(kind, number) == "EPERM"


@pytest.mark.parametrize("kind", KINDS)
def test_everything_else_is_allowed(kind: Machine) -> None:
    special = {CLONE[kind], IOCTL[kind], SOCKET[kind], UNSHARE[kind], SOCKET[kind] + 1, 53, 199, 435}
    denied = {numbers[KINDS.index(kind)] for numbers in DENIED.values()}
    for number in set(range(470)) - special - denied:
        assert verdict(kind, number) == ALLOWED, number


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_new_namespaces_are_refused_and_new_threads_are_not(kind: Machine, flag: int) -> None:
    assert verdict(kind, CLONE[kind], flag | 17) == "EPERM"
    assert verdict(kind, UNSHARE[kind], flag) == "EPERM"
    assert verdict(kind, UNSHARE[kind], 0x80) == "EPERM"
    assert verdict(kind, CLONE[kind], 0x003D0F00) == ALLOWED
    assert verdict(kind, UNSHARE[kind], 0x400) == ALLOWED


@pytest.mark.parametrize("kind", KINDS)
def test_clone3_and_unheard_of_calls_look_like_an_older_kernel(kind: Machine) -> None:
    assert verdict(kind, 435) == "ENOSYS"
    assert verdict(kind, 470) == "ENOSYS"
    assert verdict(kind, 0x40000000) == "ENOSYS"
    assert verdict(kind, 0x40000000 | 165) == "ENOSYS"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("request_word", [0x5412, 0x541C])
def test_typing_into_a_terminal_is_refused_whatever_the_upper_bits_say(kind: Machine, request_word: int) -> None:
    assert verdict(kind, IOCTL[kind], 3, request_word) == "EPERM"
    assert verdict(kind, IOCTL[kind], 3, request_word | 1 << 32) == "EPERM"
    assert verdict(kind, IOCTL[kind], 3, 0x5401) == ALLOWED


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_usual_address_families_can_be_opened(kind: Machine) -> None:
    for family in (1, 2, 10, 16):
        assert verdict(kind, SOCKET[kind], family) == ALLOWED
    for family in (0, 17, 21, 30, 38, 40, 44):
        assert verdict(kind, SOCKET[kind], family) == "EAFNOSUPPORT"


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_another_architecture_end_the_program(kind: Machine) -> None:
    assert verdict(kind, 1, arch="i386") == "kill"


@pytest.mark.parametrize(
    ("header", "column"),
    [("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0), ("/usr/include/asm-generic/unistd.h", 1)],
)
def test_the_numbers_are_those_of_the_system_headers(header: str, column: int) -> None:
    path = Path(header)
    if not path.exists():
        pytest.skip(f"no {header} here")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", path.read_text()))
    wrong = {
        name: numbers[column]
        for name, numbers in DENIED.items()
        if name in known and numbers[column] is not None and int(known[name]) != numbers[column]
    }
    assert wrong == {}
