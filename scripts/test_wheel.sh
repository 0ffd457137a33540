#!/usr/bin/env bash
# Builds the wheel in the environment that is entered, and runs what it installs
# from a folder of its own, with nothing of the checkout on the path.
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
