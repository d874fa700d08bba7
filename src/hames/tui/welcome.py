"""The welcome text on an empty screen."""

from pathlib import Path

from rich.text import Text

from hames import __version__
from hames.domain.display import visible
from hames.tui.blocks.block import Block
from hames.tui.lines import cut, line
from hames.tui.palette import Palette


class Welcome(Block):
    def __init__(self, cwd: Path) -> None:
        super().__init__("")
        self._cwd = visible(str(cwd))

    def draw(self, width: int, palette: Palette) -> list[Text]:
        return [
            line(("╭╮ ", palette.accent), ("hames ", palette.strong), (__version__, palette.quiet)),
            line(("╰╯ ", palette.accent), (cut(self._cwd, width - 3), palette.quiet)),
            Text(),
            line(("   Say what you want done. ", palette.text)),
            line(
                ("   / ", palette.accent), ("commands   ", palette.quiet),
                ("@ ", palette.accent), ("files   ", palette.quiet),
                ("F1 ", palette.accent), ("keys   ", palette.quiet),
                ("shift+tab ", palette.accent), ("mode", palette.quiet),
            ),
        ]  # fmt: skip
