"""What an installed wheel is to do, in an environment with nothing of the checkout.

python installed.py [docs/tutorial.md]

Ends with status 0 where the package loads the library for the torch that is there,
replays, and every program of the tutorial runs. Not a test of pytest: run by
scripts/test_wheel.sh and scripts/test_installed.sh.
"""

from __future__ import annotations

import pathlib
import platform
import re
import sys

import reprise
import torch

SITE = pathlib.Path(reprise.__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def has_its_files() -> None:
    minor = "".join(torch.__version__.split(".")[:2])
    for name in (f"libreprise_torch_{minor}.so", "libtbb.so.12"):
        assert (SITE / name).is_file(), f"the wheel has no {name}"
    assert list(SITE.parent.glob("reprise-*.dist-info/licenses/**/LICENSE"))


def replays() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    inputs = [torch.randn(2, 8) for _ in range(16)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        with reprise.session(device="cpu") as session:
            for x, y in zip(inputs, expected, strict=True):
                assert torch.equal(model(x), y)
                assert session.wait(120)
            assert session.stats().replays > 0, session.explain()


def uses_its_own_tbb() -> None:
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    tbb = {line.split()[-1] for line in maps if "libtbb.so" in line}
    assert tbb == {str(SITE / "libtbb.so.12")}, tbb


def runs_the_tutorial(page: pathlib.Path) -> None:
    variables: dict[str, object] = {}
    programs = BLOCK.findall(page.read_text())
    assert programs, f"no program in {page}"
    for text in programs:
        exec(compile(text, str(page), "exec"), variables)
    reprise.disable()


def main() -> None:
    has_its_files()
    replays()
    uses_its_own_tbb()
    for page in sys.argv[1:]:
        runs_the_tutorial(pathlib.Path(page))
    print(f"installed: Python {platform.python_version()}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
