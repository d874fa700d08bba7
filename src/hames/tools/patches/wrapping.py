"""A patch out of what models wrap around it: a Markdown fence, or the shell command that Codex models learned."""

import re

from hames.deferred import pattern

_FENCE = pattern(r"\A\s*(?P<fence>```+|~~~+)[^\n]*\n(?P<inner>.*)\n(?P=fence)\s*\Z", re.DOTALL)
_HEREDOC = pattern(
    r"""\A\s*
    (?:cd\s+(?P<directory>'[^'\n]*'|"[^"\n$`\\]*"|[\w./@+-]+)\s*(?:&&|;)\s*)?
    (?:apply_?patch\s*)?
    <<-?\s*(?P<quote>['"]?)(?P<word>\w+)(?P=quote)[ \t]*\n
    (?P<inner>.*)\n[ \t]*(?P=word)\s*\Z""",
    re.DOTALL | re.VERBOSE,
)
_ARGUMENT = pattern(
    r"\A\s*apply_?patch\s+(?P<quote>['\"])(?P<inner>\s*\*\*\* Begin Patch\n.*\*\*\* End Patch\s*)(?P=quote)\s*\Z",
    re.DOTALL,
)


def unwrapped(patch: str) -> str:
    """The patch itself.

    >>> unwrapped("```diff\\n--- a/x\\n+++ b/x\\n```")
    '--- a/x\\n+++ b/x'
    """
    for _ in range(2):
        found = _FENCE.match(patch) or _HEREDOC.match(patch)
        if found is None:
            break
        patch = found["inner"]
    return patch


def patch_in_command(command: str) -> tuple[str, str] | None:
    """The patch and its directory, when a command line is `apply_patch` with a patch and nothing else.

    >>> patch_in_command("cd src && apply_patch <<'EOF'\\n*** Begin Patch\\n*** End Patch\\nEOF")
    ('*** Begin Patch\\n*** End Patch', 'src')
    """
    if "*** Begin Patch" not in command:
        return None
    found = _HEREDOC.match(command)
    if found is not None and "apply" in command[: found.start("inner")]:
        inner = found["inner"]
        body = inner.strip()
        if not found["quote"] and ("$" in inner or "`" in inner or "\\" in inner):
            return None  # the shell would change it first
        if body.startswith("*** Begin Patch") and body.endswith("*** End Patch"):
            return inner, (found["directory"] or "").strip("'\"")
        return None
    alone = _ARGUMENT.match(command)
    if alone is None or alone["quote"] in alone["inner"]:
        return None
    if alone["quote"] == '"' and ("$" in alone["inner"] or "`" in alone["inner"] or "\\" in alone["inner"]):
        return None
    return alone["inner"], ""
