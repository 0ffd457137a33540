"""The picture in docs/architecture.md is that of the tree."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import draw_layers  # noqa: E402

PAGE = """\
<!-- the picture: scripts/draw_layers.py -->
<!-- the end of the picture -->
| 0 | `low/` | the lowest | |
| 1 | `middle/` | between | |
| 2 | `high/` | the highest | |
"""


class PictureTest(unittest.TestCase):
    def test_tree(self) -> None:
        page = (ROOT / draw_layers.PAGE).read_text()
        drawn = draw_layers.with_picture(page, draw_layers.draw(ROOT))
        self.assertEqual(page, drawn, "run scripts/draw_layers.py")

    def test_arrows(self) -> None:
        """One for each folder that is used, and none where a longer way leads."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / draw_layers.PAGE).write_text(PAGE)
            for name, included in (
                ("low/a.h", ()),
                ("middle/b.h", ("low/a.h",)),
                ("high/c.cc", ("middle/b.h", "low/a.h")),
            ):
                path = root / name
                path.parent.mkdir()
                path.write_text("".join(f'#include "{one}"\n' for one in included))
            picture = draw_layers.draw(root)
        arrows = [line.strip() for line in picture.splitlines() if "-->" in line]
        self.assertEqual(arrows, ["high --> middle", "middle --> low"])

    def test_page_without_a_place(self) -> None:
        with self.assertRaises(SystemExit):
            draw_layers.with_picture("nothing\n", "picture\n")


if __name__ == "__main__":
    unittest.main()
