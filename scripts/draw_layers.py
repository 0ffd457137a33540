#!/usr/bin/env python3
"""Draws which folder includes which into docs/architecture.md.

The picture is a Mermaid block, which GitHub and most editors render. It is drawn from
the #includes of the tree: an arrow goes from a folder to one that it uses, and is left
out where another way of arrows leads there too. Without an argument this writes the
picture. With --check it only looks, and fails if the picture is not that of the tree.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "architecture"))

from layers_test import Layer, layer_of, read_includes, read_layers  # noqa: E402

PAGE = pathlib.Path("docs") / "architecture.md"
BEGIN = "<!-- the picture: scripts/draw_layers.py -->\n"
END = "<!-- the end of the picture -->\n"

# What no #include shows: the package calls the library through torch.ops.
BESIDE_INCLUDES = (("bindings/python", "bindings/torch"),)


def find_uses(root: pathlib.Path, layers: list[Layer]) -> dict[str, set[str]]:
    """For each folder the folders that its files include, and no others."""
    uses: dict[str, set[str]] = defaultdict(set)
    for folder, used in BESIDE_INCLUDES:
        uses[folder].add(used)
    for include in read_includes(root, layers):
        user = layer_of(include.file, layers)
        used_layer = layer_of(pathlib.PurePosixPath(include.name), layers)
        if include.quoted and user and used_layer and user != used_layer:
            uses[user.folder].add(used_layer.folder)
    return uses


def leave_out_detours(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same without arrows that a longer way stands for. `uses` has no circle."""
    reached: dict[str, set[str]] = {}

    def reach(folder: str) -> set[str]:
        if folder not in reached:
            direct = uses.get(folder, set())
            reached[folder] = direct.union(*(reach(used) for used in direct))
        return reached[folder]

    return {
        folder: {
            used
            for used in direct
            if not any(used in reach(other) for other in direct - {used})
        }
        for folder, direct in uses.items()
    }


def draw(root: pathlib.Path) -> str:
    layers = read_layers((root / PAGE).read_text())
    uses = leave_out_detours(find_uses(root, layers))
    names = {layer.folder: re.sub(r"\W", "_", layer.folder) for layer in layers}
    lines = ["```mermaid", "flowchart TD"]
    for layer in sorted(layers, key=lambda layer: -layer.rank):
        lines.append(f'  {names[layer.folder]}["{layer.folder}/"]')
    for layer in sorted(layers, key=lambda layer: -layer.rank):
        lines += [
            f"  {names[layer.folder]} --> {names[used]}"
            for used in sorted(uses.get(layer.folder, set()))
        ]
    return "\n".join([*lines, "```"]) + "\n"


def with_picture(page: str, picture: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has no place for the picture ({BEGIN.strip()})")
    return before + BEGIN + picture + END + after


def main(arguments: list[str]) -> int:
    path = ROOT / PAGE
    page = path.read_text()
    current = with_picture(page, draw(ROOT))
    if "--check" not in arguments:
        path.write_text(current)
        return 0
    if page == current:
        return 0
    print(f"the picture in {PAGE} is not that of the tree: run scripts/draw_layers.py")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
