#!/usr/bin/env bash
# scripts/test_wheel.sh [PYTHON...]
#
# Builds the wheel in the environment that is entered, and runs what it installs
# from a folder of its own, with nothing of the checkout on the path. Then it installs
# it with torch into an environment of each PYTHON (scripts/test_installed.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/build_wheel.sh "$work"
python -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
  --no-index --target "$work/site" "$work"/reprise-*.whl
unset REPRISE_LIBRARY
cd "$work"
PYTHONPATH=$work/site "$work/site/bin/reprise" --version
PYTHONPATH=$work/site python -W ignore "$checkout/tests/python/installed.py"
for library in "$work"/site/reprise/libreprise_torch_*.so; do
  python "$checkout/tests/architecture/library_test.py" "$library" "$work/site/reprise/libtbb.so.12"
done
torch=$(python -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
for python in "$@"; do
  "$checkout/scripts/test_installed.sh" "$work"/reprise-*.whl "$python" "$torch"
done
