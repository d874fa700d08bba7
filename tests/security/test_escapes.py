"""A hundred attempts and more to get out, under every policy, with every bubblewrap, as root and as nobody."""

import sys
from typing import Any

import pytest
from walls import as_user, bubblewraps, policy, settings, users

from hames.domain.policy import DangerFullAccess
from hames.sandbox.proof.attempts.run import ATTEMPTS
from hames.sandbox.proof.escape_test import prove
from hames.sandbox.proof.targets import interpreter

pytestmark = pytest.mark.needs("bwrap", "bash")

POLICIES = {
    "readOnly": ('{"type": "readOnly"}', frozenset[str]()),
    "workspaceWrite": ('{"type": "workspaceWrite"}', frozenset()),
    "with network": ('{"type": "workspaceWrite", "networkAccess": true}', frozenset()),
}

# Nothing to be had on every machine or for every user; what is left must be real when there are no walls.
UNCERTAIN = frozenset(
    {
        "connect_to_a_server_on_loopback_v6",
        "find_a_route_to_the_metadata_address",
        "find_a_secret_in_the_environment",
        "gain_privileges_by_exec",
        "load_a_bpf_program",
        "look_up_a_name",
        "make_a_huge_file",  # there is a limit without walls, too
        "open_a_file_by_handle",
        "open_a_kernel_crypto_socket",
        "open_a_socket_to_the_hypervisor",
        "open_the_terminal",
        "reach_for_sysrq",
        "read_an_inherited_descriptor",
        "read_the_memory_of_another_process",
        "remount_a_root_writable",
        "stay_in_a_session_of_its_own",
        "take_a_cover_away",
        "type_into_a_terminal",
        "type_into_a_terminal_with_high_bits",
        "use_io_uring",
        "watch_performance_counters",
        "write_through_the_root_of_a_process",
        "write_to_sysfs",
    }
)
FOR_ROOT_ONLY = frozenset(
    {
        "change_the_root",
        "enter_a_namespace",
        "handle_page_faults",
        "keep_capabilities",
        "make_a_control_group",
        "make_a_device",
        "mount_a_file_system",
        "make_a_mount_by_hand",
        "make_a_mount_namespace",
        "make_a_user_namespace",
        "clone_into_a_user_namespace",
        "clone3_into_a_user_namespace",
        "open_a_mount_tree",
        "open_a_packet_socket",
        "open_a_raw_socket",
        "read_a_copy_of_the_shadow_file",
        "read_the_shadow_file",
        "set_the_clock",
        "set_the_host_name",
        "write_a_sysctl",
    }
)


# There is a proxy to ask only where a command has network access behind walls.
PROXY = frozenset(name for name in ATTEMPTS if name.startswith("ask_the_proxy"))


async def escapes(policy_name: str, bubblewrap: str) -> list[str]:
    sys.executable = interpreter() or sys.executable
    findings = await prove(policy(policy_name), settings(bubblewrap))
    return [finding.attempt for finding in findings if finding.escaped]


async def background_escapes(policy_name: str, how: str) -> list[str]:
    sys.executable = interpreter() or sys.executable
    findings = await prove(policy(policy_name), neighbour=how == "shared network", terminal=how == "terminal")
    return [finding.attempt for finding in findings if finding.escaped]


def test_there_are_enough_attempts() -> None:
    assert len(ATTEMPTS) >= 115


# All policies with the bubblewrap that would be used here, and the usual one with every other there is.
CASES = [(name, path) for name in POLICIES for path in bubblewraps() if path == bubblewraps()[0] or "space" in name]


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize(("name", "bubblewrap"), CASES)
def test_nothing_gets_out_but_what_is_documented(name: str, bubblewrap: str, user: str) -> None:
    text, documented = POLICIES[name]
    escaped: list[Any] = as_user(user, "test_escapes:escapes", text, bubblewrap)
    assert set(escaped) - documented == set()


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("how", ["shared network", "terminal"])
def test_nothing_gets_out_of_a_shared_network_or_a_terminal(how: str, user: str) -> None:
    escaped: list[Any] = as_user(user, "test_escapes:background_escapes", '{"type": "workspaceWrite"}', how)
    own = {"open_the_terminal"} if how == "terminal" else set[str]()  # which is its own
    assert set(escaped) == own


@pytest.mark.parametrize("user", users())
def test_without_walls_the_same_attempts_succeed(user: str) -> None:
    """An attempt that never succeeds proves nothing."""
    escaped: list[Any] = as_user(user, "test_escapes:escapes", '{"type": "dangerFullAccess"}', "")
    expected = set(ATTEMPTS) - UNCERTAIN - PROXY - (frozenset() if user == "root" else FOR_ROOT_ONLY)
    assert expected - set(escaped) == set()


async def test_without_walls_a_clean_start_still_holds() -> None:
    escaped = {finding.attempt for finding in await prove(DangerFullAccess()) if finding.escaped}
    kept = {"find_a_secret_in_the_environment", "read_an_inherited_descriptor", "open_the_terminal"}
    assert escaped & (kept | {"stay_in_a_session_of_its_own"}) == set()
