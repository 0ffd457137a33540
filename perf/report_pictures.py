"""The pictures of a report's page in docs/report.md.

`python perf/report_pictures.py` runs a training loop on the host executor, and has Chromium
take docs/images/report-light.png and docs/images/report-dark.png of its report. Needs no
GPU, and Debian's package chromium.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile

IMAGES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1000, 1440
# Chromium's names for what a system prefers.
THEMES = {"light": "--force-light-mode", "dark": "--force-dark-mode"}

TRAIN = """
import sys
import warnings

import reprise
import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
generator = torch.Generator()


@reprise.region
def predict(x):
    return model(x).softmax(-1)


@reprise.region
def accept(x):
    return x.mean().item() > 0


def train(steps):
    for step in range(steps):
        x = torch.randn(16, 64)
        noise = torch.randn(16, 64, generator=generator)
        loss = model(x + noise).logsumexp(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.isnan().item():
            raise SystemExit("the loss is not a number")
        if step % 50 == 0:
            print(loss.detach().sqrt())


reprise.enable("cpu", policy="always")
train(100)
with torch.no_grad():
    for _ in range(60):
        if accept(torch.randn(8, 64)):
            predict(torch.randn(8, 64))
reprise.wait()
reprise.explain().export_html(sys.argv[1])
"""


def main() -> None:
    """Take both pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium was found: apt-get install -y chromium")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "demo" / "train.py"
        program.parent.mkdir()
        program.write_text(TRAIN.lstrip())
        page = program.with_name("report.html")
        subprocess.run(
            [sys.executable, str(program), str(page)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for theme, flag in THEMES.items():
            taken = program.with_name(f"{theme}.png")
            take(chromium, page, taken, flag)
            shrink(taken, IMAGES / f"report-{theme}.png")


def take(chromium: str, page: pathlib.Path, picture: pathlib.Path, flag: str) -> None:
    """Have Chromium draw the top of the page."""
    subprocess.run(
        [
            *(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", flag),
            *("--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"),
            *(f"--screenshot={picture}", page.as_uri()),
        ],
        check=True,
        capture_output=True,
    )


def shrink(taken: pathlib.Path, picture: pathlib.Path) -> None:
    """Keep 256 colours, which such a page has."""
    from PIL import Image

    with Image.open(taken) as image:
        colours = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(picture, optimize=True)


if __name__ == "__main__":
    main()
