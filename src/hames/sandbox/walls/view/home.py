"""What a sandboxed program sees of the home directory: tools and downloads of languages, by name, and nothing else.

Names are as narrow as they can be, because secrets lie beside what is wanted: `.cargo/credentials.toml` beside
`.cargo/bin`, `.m2/settings.xml` beside `.m2/repository`. Files with settings are rendered (`rendered_config`).
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from hames.sandbox.paths import is_inside
from hames.sandbox.walls.mounts import BOUND, Mount, follow

TOOLS = tuple(
    """
    .asdf .bun/bin .cabal/bin .cache/Cypress .cache/bazelisk .cache/electron .cache/ms-playwright
    .cache/node/corepack .cache/pypoetry/virtualenvs .cache/puppeteer .cargo/bin .choosenim/toolchains .deno/bin
    .dotnet .elan .fnm .foundry/bin .gem/ruby .ghcup .goenv .jabba/jdk .jdks .jenv .julia/juliaup .juliaup
    .local/bin .local/lib .local/pipx/venvs .local/share/fnm .local/share/gem/ruby .local/share/hatch/env
    .local/share/mise/installs .local/share/mise/shims .local/share/pipx/venvs .local/share/pnpm
    .local/share/uv/python .local/share/uv/tools .local/share/virtualenvs .luarocks .mix .nimble/bin .nodenv .nvm
    .opam .perlbrew .phpenv .plenv .proto .pub-cache/bin .pyenv .rbenv .rustup .rvm .sdkman .stack/programs
    .swiftly .tool-versions .volta .yarn/bin Android/Sdk anaconda3 flutter go/bin mambaforge micromamba miniconda3
    miniforge3 n/bin n/lib perl5 sdk
    """.split()
)
"""Programs. Read-only."""


class DownloadCache(NamedTuple):
    """`language`: a workspace with files of it may change the cache, privately. `readable`: in another workspace, or
    where there are no overlays, a command can read it; otherwise it is empty there."""

    language: str
    readable: bool


_READABLE_CACHES = {
    "c": ".conan2/p",
    "dart": ".pub-cache/git .pub-cache/hosted",
    "dotnet": ".nuget/packages",
    "erlang": ".hex/packages",
    "go": "go/pkg/mod",
    "haskell": ".cabal/packages .cabal/store .stack/pantry .stack/snapshots",
    "java": ".cache/coursier .gradle/wrapper .ivy2/cache .konan .m2/repository .m2/wrapper .sbt/boot",
    "julia": ".julia/artifacts .julia/compiled .julia/packages .julia/registries",
    "nim": ".nimble/pkgs2",
    "node": ".bun/install/cache .cache/deno .cache/node-gyp .yarn/berry/cache",
    "python": ".cache/huggingface/hub .cache/torch nltk_data",
    "rust": ".cargo/git .cargo/registry",
    "terraform": ".terraform.d/plugin-cache",
}
_PRIVATE_CACHES = {
    "bazel": ".cache/bazel",
    "c": ".cache/ccache .ccache",
    "erlang": ".cache/rebar3",
    "go": ".cache/go-build",
    "java": ".gradle/caches",
    "node": ".cache/pnpm .cache/yarn .npm/_cacache",
    "php": ".cache/composer .composer/cache",
    "python": ".cache/pip .cache/pre-commit .cache/pypoetry/artifacts .cache/uv",
    "rust": ".cache/sccache",
    "zig": ".cache/zig",
}
"""For tools that do not work with a read-only cache."""
CACHES = {
    name: DownloadCache(language, readable)
    for table, readable in ((_READABLE_CACHES, True), (_PRIVATE_CACHES, False))
    for language, names in table.items()
    for name in names.split()
}
"""Downloads. What a command writes there is thrown away."""

_FILES_OF_LANGUAGES = {
    "bazel": "MODULE.bazel WORKSPACE WORKSPACE.bazel",
    "c": "Makefile CMakeLists.txt meson.build configure.ac conanfile.txt conanfile.py",
    "dart": "pubspec.yaml",
    "dotnet": ".csproj .fsproj .vbproj .sln",
    "erlang": "mix.exs rebar.config",
    "go": "go.mod go.work",
    "haskell": "stack.yaml cabal.project .cabal",
    "java": "pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts build.sbt mvnw gradlew",
    "julia": "Project.toml",
    "nim": ".nimble",
    "node": "package.json deno.json deno.jsonc bun.lockb",
    "php": "composer.json",
    "python": (
        "pyproject.toml requirements.txt setup.py setup.cfg Pipfile uv.lock uv.toml .python-version "
        ".pre-commit-config.yaml .ipynb"
    ),
    "rust": "Cargo.toml",
    "terraform": ".tf",
    "zig": "build.zig",
}
LANGUAGES = {file: language for language, files in _FILES_OF_LANGUAGES.items() for file in files.split()}
"""The files that tell what a workspace is written in, by their names or by how these end."""


_SETTLED_NS = 2_000_000_000
_PARENTS = sorted({name[: name.rindex("/")] for name in (*TOOLS, *CACHES) if "/" in name} | {"."})


State = tuple[tuple[str, int, int], ...]


class HomeView:
    """`home_mounts` for one home directory, remembered until a directory above one of the names changes."""

    def __init__(self, home: str, overlays: Callable[[str], bool]) -> None:
        self._home = home
        self._overlays = overlays
        self._seen: State = ()
        self._found: dict[frozenset[str], tuple[Mount, ...]] = {}

    def mounts(self, languages: frozenset[str]) -> tuple[Mount, ...]:
        """The very same as before if nothing has changed."""
        state = self._state()
        if not state or state != self._seen:
            self._seen, self._found = state, {}
        if languages not in self._found:
            self._found[languages] = tuple(home_mounts(self._home, languages, overlays=self._overlays))
        return self._found[languages]

    def _state(self) -> State:
        """Nothing if one of them changed a moment ago: its next change might leave the same time stamp."""
        newest = time.time_ns() - _SETTLED_NS
        parents = [name for name, *_ in self._seen] or _PARENTS
        state: list[tuple[str, int, int]] = []
        for name in parents:
            try:
                about = os.stat(f"{self._home}/{name}")
            except OSError:
                continue
            if about.st_mtime_ns > newest:
                return ()
            state.append((name, about.st_ino, about.st_mtime_ns))
        return tuple(state)


def home_mounts(home: str, languages: frozenset[str], *, overlays: Callable[[str], bool]) -> list[Mount]:
    """What is there of `TOOLS` and `CACHES`. `overlays`: whether a directory can be the lower half of an overlay."""
    try:
        top = frozenset(os.listdir(home))
    except OSError:
        return []
    found: list[Mount] = []
    for name in TOOLS:
        if name.partition("/")[0] in top:
            found += user_mounts(f"{home}/{name}", home)
    for name, cache in CACHES.items():
        if name.partition("/")[0] in top:
            mounts = user_mounts(f"{home}/{name}", home, how="cache")
            if mounts and cache.language in languages and overlays(mounts[-1].path):
                found += mounts
            elif mounts and cache.readable:
                found += [*mounts[:-1], Mount(path=mounts[-1].path, how="shown")]
    return found


def user_mounts(path: str, home: str, *, how: Literal["shown", "tool", "cache"] = "shown") -> list[Mount]:
    """Mounts that show a file or directory of the user's own choosing, through symbolic links. Nothing if it is not
    there, or if it is or holds the whole home directory."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return []
    real, links = follow(path)
    if is_inside(home, real):
        return []
    # A file cannot be an overlay.
    return [*links, Mount(path=real, how=how if stat.S_ISDIR(about.st_mode) else "shown")]


def names_below(home: str, mounts: Iterable[Mount]) -> list[str]:
    """For people: what is visible of the home directory."""
    return sorted(
        {mount.path[len(home) + 1 :] for mount in mounts if is_inside(mount.path, home) and mount.path != home}
    )


def without_repeats(mounts: Sequence[Mount], *, shown_already: Sequence[str], workspaces: Sequence[str]) -> list[Mount]:
    """Leaves out what lies in a directory that is shown anyway. A cache stays, because it is more than shown, except
    inside a workspace: what is written there must last."""
    kept: dict[str, Mount] = {}
    trees = [mount.path for mount in mounts if mount.how in BOUND]
    for mount in mounts:
        path = mount.path
        repeats = any(tree != path and is_inside(path, tree) for tree in trees) or any(
            is_inside(path, tree) for tree in shown_already
        )
        if any(is_inside(path, root) for root in workspaces) or (repeats and mount.how != "cache"):
            continue
        kept[path] = mount
    return list(kept.values())
