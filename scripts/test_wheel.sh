#!/usr/bin/env bash
# Builds the wheel in the environment that is entered, and runs what it installs
# from a folder of its own, with nothing of the checkout on the path.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/build_wheel.sh "$work"
python -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
  --no-index --target "$work/site" "$work"/reprise-*.whl
unset REPRISE_LIBRARY
cd "$work"
PYTHONPATH=$work/site "$work/site/bin/reprise" --version
PYTHONPATH=$work/site python -W ignore - <<'EOF'
import pathlib

import torch

import reprise

site = pathlib.Path(reprise.__file__).parent
minor = "".join(torch.__version__.split(".")[:2])
for name in (f"libreprise_torch_{minor}.so", "libtbb.so.12"):
    assert (site / name).is_file(), f"the wheel has no {name}"
assert list(site.parent.glob("reprise-*.dist-info/licenses/**/LICENSE"))

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
inputs = [torch.randn(2, 8) for _ in range(16)]
with torch.no_grad():
    expected = [model(x) for x in inputs]
    with reprise.session(device="cpu") as session:
        for x, y in zip(inputs, expected):
            assert torch.equal(model(x), y)
            assert session.wait(120)
        print(session.stats())
        assert session.stats().replays > 0, session.explain()

loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
tbb = {path for path in loaded if "libtbb.so" in path}
assert tbb == {str(site / "libtbb.so.12")}, tbb
EOF
