"""`v1_policy`: what clients of `/v1` are asked is configured, shown at the start, and what their threads have."""

import json
import urllib.request
from pathlib import Path

import pytest
from cli_process import Shell

NEVER = "clients of /v1 and /agui are never asked; commands stay in the sandbox (never)"
ALWAYS = "clients of /v1 and /agui are asked every time (always)"


@pytest.mark.parametrize(
    ("flags", "row", "policy"),
    [
        pytest.param((), NEVER, "never", id="key"),
        pytest.param(("--v1-policy", "always"), ALWAYS, "always", id="flag", marks=pytest.mark.slow),
    ],
)
def test_the_policy_of_v1_is_a_key_or_a_flag(tmp_path: Path, flags: tuple[str, ...], row: str, policy: str) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "config.toml").write_text('v1_policy = "never"\napproval_policy = "unlessTrusted"\n')
    script = shell.script("Done.")
    server = shell.start("serve", "--port", "0", "--model", script, *flags)
    assert server.stdout is not None
    try:
        lines = [server.stdout.readline().strip()]
        while lines[-1] and not lines[-1].startswith("Ctrl+C"):
            lines.append(server.stdout.readline().strip())
        assert f"v1 policy  {row}" in lines
        url = lines[0].split()[-1]
        body = json.dumps({"model": "hames", "messages": [{"role": "user", "content": "go"}]}).encode()
        asked = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as done:
            assert json.load(done)["choices"][0]["message"]["content"] == "Done."
            thread = done.headers["X-Hames-Thread"]
        log = (shell.workspace / ".harness" / "threads" / thread).rglob("*")
        kept = "".join(path.read_text(errors="replace") for path in log if path.is_file())
        assert f'"approval_policy":"{policy}"' in kept, kept
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_a_policy_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "config.toml").write_text('v1_policy = "sometimes"\n')
    done = shell.hames("config")
    assert done.returncode == 2
    assert "v1_policy" in done.stderr
    assert "unlessTrusted" in done.stderr
