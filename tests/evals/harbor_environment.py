# pyright: basic, reportMissingImports=false
"""An environment for Harbor without Docker: a container of bubblewrap, with a root directory of its own.

Harbor loads it by its import path. It takes the place of the image that the task's Dockerfile would make: the system's
programs, the workspace in `/app`, and what a trial needs (`/tests`, `/logs`, `/tmp`), all below one directory.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

HOME = "/home/agent"


class BubblewrapEnvironment(BaseEnvironment):
    """Words of the test come through variables: `TEST_ROOT` (a directory for it), `TEST_BWRAP`, `TEST_PROGRAMS`."""

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities()

    @property
    def root(self) -> Path:
        return Path(os.environ["TEST_ROOT"], self.session_id)

    def _validate_definition(self) -> None:
        if not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError(self.environment_dir / "Dockerfile")

    async def start(self, force_build: bool) -> None:
        for name in ("app", "tests", "logs/agent", "logs/verifier", "logs/artifacts", "tmp", "installed-agent", "opt"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / HOME[1:]).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            if Path("/", name).is_symlink():
                (self.root / name).symlink_to(Path("/", name).readlink())
        shutil.copytree(self.environment_dir / "workspace", self.root / "app", dirs_exist_ok=True)
        shutil.copytree(os.environ["TEST_PROGRAMS"], self.root / "opt", dirs_exist_ok=True)

    async def stop(self, delete: bool) -> None:
        if delete:
            shutil.rmtree(self.root)

    def _outside(self, path: str) -> Path:
        return self.root / str(path).lstrip("/")

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._outside(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._outside(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._outside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._outside(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._outside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        words = [os.environ["TEST_BWRAP"], "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
        words += ["--uid", "0", "--gid", "0", "--bind", str(self.root), "/", "--dev", "/dev", "--proc", "/proc"]
        python = Path(sys.base_prefix).resolve()
        for path in ("/usr", "/etc", "/run", str(python)):
            words += ["--ro-bind-try", path, path]
        words += ["--chdir", cwd or "/app", "--", "/bin/bash", "-c", command]
        kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
        own = {"HOME": HOME, "PATH": "/opt:/usr/local/bin:/usr/bin:/bin", "UV_PYTHON": f"{python}/bin/python3"}
        process = await asyncio.create_subprocess_exec(
            *words,
            env={**kept, **own, **(self._merge_env(env) or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)
