"""The colours of a conversation, taken from the theme in force. Blocks name what they mean, never a colour."""

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import Theme

from hames.domain.value import Value

DARK = Theme(
    name="hames-dark",
    primary="#7aa2f7",
    secondary="#9d8cff",
    accent="#e0af68",
    warning="#e0af68",
    error="#f7768e",
    success="#8fce7e",
    foreground="#d5d9e6",
    background="#12141a",
    surface="#191c24",
    panel="#22262f",
    dark=True,
    variables={"border": "#3d4453", "border-blurred": "#2b303b", "footer-background": "#12141a"},
)
LIGHT = Theme(
    name="hames-light",
    primary="#2f5fc4",
    secondary="#6a4fc0",
    accent="#9a6700",
    warning="#9a6700",
    error="#c4304b",
    success="#2c7a2c",
    foreground="#22262f",
    background="#fbfbf9",
    surface="#f1f1ed",
    panel="#e6e6e0",
    dark=False,
    variables={"border": "#b9b9b0", "border-blurred": "#d6d6cf", "footer-background": "#fbfbf9"},
)


class Palette(Value):
    """Styles by meaning."""

    dark: bool
    text: Style
    quiet: Style
    faint: Style
    strong: Style
    accent: Style
    good: Style
    bad: Style
    warn: Style
    code: Style
    prompt: Style
    """The row of a user's own words."""
    added: Style
    removed: Style
    code_theme: str


def palette(colours: Mapping[str, str], *, dark: bool) -> Palette:
    """From a theme's variables; what a theme does not name is left to the terminal."""

    def style(name: str, *, on: str = "", bold: bool = False, italic: bool = False, dim: bool = False) -> Style:
        return Style(
            color=_rich(colours.get(name)), bgcolor=_rich(on or None), bold=bold, italic=italic, dim=dim or None
        )

    base = colours.get("background", "")
    return Palette(
        dark=dark,
        text=style("foreground"),
        quiet=_blend(colours, 0.62),
        faint=_blend(colours, 0.42),
        strong=style("foreground", bold=True),
        accent=style("primary"),
        good=style("success"),
        bad=style("error"),
        warn=style("warning"),
        code=style("accent"),
        prompt=style("foreground", on=_mixed(base, colours.get("primary", ""), 0.13), bold=False),
        added=style("success", on=_mixed(base, colours.get("success", ""), 0.12)),
        removed=style("error", on=_mixed(base, colours.get("error", ""), 0.12)),
        code_theme="one-dark" if dark else "xcode",
    )


def _rich(colour: str | None):
    parsed = _parsed(colour)
    return None if parsed is None else parsed.rich_color


def _parsed(colour: str | None) -> Color | None:
    try:
        return Color.parse(colour) if colour else None
    except ColorParseError:
        return None


def _blend(colours: Mapping[str, str], share: float) -> Style:
    base, text = _parsed(colours.get("background")), _parsed(colours.get("foreground"))
    if base is None or text is None or base.ansi is not None or text.ansi is not None:
        return Style(dim=True)
    return Style(color=base.blend(text, share).rich_color)


def _mixed(base: str, colour: str, share: float) -> str:
    under, over = _parsed(base), _parsed(colour)
    if under is None or over is None or under.ansi is not None or over.ansi is not None:
        return ""
    return under.blend(over, share).hex


def terminal_is_dark(answer: str, environment: Mapping[str, str]) -> bool:
    """`answer` is the background's colour as the terminal gave it; failing that, what `COLORFGBG` says, else dark."""
    if answer:
        return is_dark(answer)
    ground = environment.get("COLORFGBG", "").rpartition(";")[2]
    return ground not in ("7", "15")


def is_dark(answer: str) -> bool:
    r"""What an answer to OSC 11 means.

    >>> is_dark("\x1b]11;rgb:ffff/ffff/ffff\x07"), is_dark("\x1b]11;rgb:0000/0000/0000\x1b\\")
    (False, True)
    """
    _, found, rest = answer.partition("rgb:")
    parts = rest.split("/")[:3]
    try:
        red, green, blue = (int(part[:2], 16) for part in parts)
    except ValueError:
        return True
    return not found or 0.299 * red + 0.587 * green + 0.114 * blue < 128
