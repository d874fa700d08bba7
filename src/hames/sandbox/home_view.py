"""What a sandboxed program sees of the home directory: tools and downloads of languages, by name, and nothing else.

Names are as narrow as they can be, because secrets lie beside what is wanted: `.cargo/credentials.toml` beside
`.cargo/bin`, `.m2/settings.xml` beside `.m2/repository`. Files with settings are rendered (`rendered_config`).
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from hames.sandbox.mounts import BOUND, Mount, follow, inside

TOOLS: tuple[str, ...] = (
    ".asdf",
    ".bun/bin",
    ".cabal/bin",
    ".cache/Cypress",
    ".cache/bazelisk",
    ".cache/electron",
    ".cache/ms-playwright",
    ".cache/node/corepack",
    ".cache/pypoetry/virtualenvs",
    ".cache/puppeteer",
    ".cargo/bin",
    ".choosenim/toolchains",
    ".deno/bin",
    ".dotnet",
    ".elan",
    ".fnm",
    ".foundry/bin",
    ".gem/ruby",
    ".ghcup",
    ".goenv",
    ".jabba/jdk",
    ".jdks",
    ".jenv",
    ".julia/juliaup",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx/venvs",
    ".local/share/fnm",
    ".local/share/gem/ruby",
    ".local/share/hatch/env",
    ".local/share/mise/installs",
    ".local/share/mise/shims",
    ".local/share/pipx/venvs",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/virtualenvs",
    ".luarocks",
    ".mix",
    ".nimble/bin",
    ".nodenv",
    ".nvm",
    ".opam",
    ".perlbrew",
    ".phpenv",
    ".plenv",
    ".proto",
    ".pub-cache/bin",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack/programs",
    ".swiftly",
    ".tool-versions",
    ".volta",
    ".yarn/bin",
    "Android/Sdk",
    "anaconda3",
    "flutter",
    "go/bin",
    "mambaforge",
    "micromamba",
    "miniconda3",
    "miniforge3",
    "n/bin",
    "n/lib",
    "perl5",
    "sdk",
)
"""Programs. Read-only."""

CACHES: dict[str, Literal["read", "empty"]] = {
    ".bun/install/cache": "read",
    ".cabal/packages": "read",
    ".cabal/store": "read",
    ".cache/bazel": "empty",
    ".cache/ccache": "empty",
    ".cache/composer": "empty",
    ".cache/coursier": "read",
    ".cache/deno": "read",
    ".cache/fontconfig": "empty",
    ".cache/go-build": "empty",
    ".cache/huggingface/hub": "read",
    ".cache/node-gyp": "read",
    ".cache/pip": "empty",
    ".cache/pnpm": "empty",
    ".cache/pre-commit": "empty",
    ".cache/pypoetry/artifacts": "empty",
    ".cache/rebar3": "empty",
    ".cache/sccache": "empty",
    ".cache/torch": "read",
    ".cache/uv": "empty",
    ".cache/yarn": "empty",
    ".cache/zig": "empty",
    ".cargo/git": "read",
    ".cargo/registry": "read",
    ".ccache": "empty",
    ".composer/cache": "empty",
    ".conan2/p": "read",
    ".gradle/caches": "empty",
    ".gradle/wrapper": "read",
    ".hex/packages": "read",
    ".ivy2/cache": "read",
    ".julia/artifacts": "read",
    ".julia/compiled": "read",
    ".julia/packages": "read",
    ".julia/registries": "read",
    ".konan": "read",
    ".m2/repository": "read",
    ".m2/wrapper": "read",
    ".nimble/pkgs2": "read",
    ".npm/_cacache": "empty",
    ".nuget/packages": "read",
    ".pub-cache/git": "read",
    ".pub-cache/hosted": "read",
    ".sbt/boot": "read",
    ".stack/pantry": "read",
    ".stack/snapshots": "read",
    ".terraform.d/plugin-cache": "read",
    ".yarn/berry/cache": "read",
    "go/pkg/mod": "read",
    "nltk_data": "read",
}
"""Downloads. Readable, and what a command writes there is private and thrown away. Without overlays (before bubblewrap
0.11) either read-only, or an empty private directory where the tool does not work with a read-only one."""


_SETTLED_NS = 2_000_000_000
_PARENTS = sorted({name[: name.rindex("/")] for name in (*TOOLS, *CACHES) if "/" in name} | {"."})


State = tuple[tuple[str, int, int], ...]


class HomeView:
    """`home_mounts` for one home directory, remembered until a directory above one of the names changes."""

    def __init__(self, home: str, overlays: Callable[[str], bool]) -> None:
        self._home = home
        self._overlays = overlays
        self._found: tuple[State, list[Mount]] = ((), [])

    def mounts(self) -> list[Mount]:
        state = self._state()
        before, found = self._found
        if not state or state != before:
            found = home_mounts(self._home, overlays=self._overlays)
            self._found = (state, found)
        return list(found)

    def _state(self) -> State:
        """Nothing if one of them changed a moment ago: its next change might leave the same time stamp."""
        newest = time.time_ns() - _SETTLED_NS
        parents = _PARENTS if not self._found[0] else [name for name, *_ in self._found[0]]
        state: list[tuple[str, int, int]] = []
        for name in parents:
            try:
                about = os.stat(f"{self._home}/{name}")  # noqa: PTH116
            except OSError:
                continue
            if about.st_mtime_ns > newest:
                return ()
            state.append((name, about.st_ino, about.st_mtime_ns))
        return tuple(state)


def home_mounts(home: str, *, overlays: Callable[[str], bool]) -> list[Mount]:
    """What is there of `TOOLS` and `CACHES`. `overlays`: whether a directory can be the lower half of an overlay."""
    try:
        top = frozenset(os.listdir(home))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []
    found: list[Mount] = []
    for name in TOOLS:
        if name.partition("/")[0] in top:
            found += shown(f"{home}/{name}", home)
    for name, without in CACHES.items():
        if name.partition("/")[0] in top:
            mounts = shown(f"{home}/{name}", home, how="cache")
            if mounts and overlays(mounts[-1].path):
                found += mounts
            elif mounts and without == "read":
                found += [*mounts[:-1], Mount(path=mounts[-1].path, how="tool")]
    return found


def shown(path: str, home: str, *, how: Literal["tool", "cache"] = "tool") -> list[Mount]:
    """Mounts that show a file or directory of the user's own choosing, through symbolic links. Nothing if it is not
    there, or if it is or holds the whole home directory."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return []
    real, links = follow(path)
    if inside(home, real):
        return []
    # A file cannot be an overlay.
    return [*links, Mount(path=real, how=how if stat.S_ISDIR(about.st_mode) else "tool")]


def names_below(home: str, mounts: Iterable[Mount]) -> list[str]:
    """For people: what is visible of the home directory."""
    return sorted({mount.path[len(home) + 1 :] for mount in mounts if inside(mount.path, home) and mount.path != home})


def without_repeats(mounts: Sequence[Mount], *, shown_already: Sequence[str], workspaces: Sequence[str]) -> list[Mount]:
    """Leaves out what lies in a directory that is shown anyway. A cache stays, because it is more than shown, except
    inside a workspace: what is written there must last."""
    kept: dict[str, Mount] = {}
    trees = [mount.path for mount in mounts if mount.how in BOUND]
    for mount in mounts:
        path = mount.path
        repeats = any(tree != path and inside(path, tree) for tree in trees) or any(
            inside(path, tree) for tree in shown_already
        )
        if any(inside(path, root) for root in workspaces) or (repeats and mount.how != "cache"):
            continue
        kept[path] = mount
    return list(kept.values())
