"""Which files a list of a workspace leaves out, beside what the project itself ignores. Nobody means a cache."""

from typing import Final

CACHE_DIRECTORIES: Final = (
    *(".git", ".hg", ".svn", ".jj", ".harness", "node_modules", ".venv", ".tox", ".nox", ".eggs", "__pycache__"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints", ".gradle", ".terraform"),
    *(".parcel-cache", ".turbo", ".next", ".nuxt", ".svelte-kit", ".nyc_output", ".sass-cache", ".dart_tool"),
)
COMPILED_FILES: Final = (
    *("*.pyc", "*.pyo", "*.pyd", "*.so", "*.o", "*.obj", "*.a", "*.lib", "*.dll", "*.dylib", "*.class", "*.rlib"),
    *("*.swp", "*.swo", "*~", ".DS_Store", "Thumbs.db", ".coverage", "*.tsbuildinfo"),
)
RIPGREP_LIST: Final = (
    *("--files", "--no-config", "--no-messages", "--color=never", "--no-follow", "--hidden", "--no-require-git"),
    *("--null", *(f"--glob=!{name}" for name in (*CACHE_DIRECTORIES, *COMPILED_FILES))),
)
"""The arguments that make ripgrep list the files of the current directory, each followed by a NUL."""
