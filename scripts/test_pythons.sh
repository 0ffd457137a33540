#!/usr/bin/env bash
# scripts/test_pythons.sh [PYTHON...]
#
# One wheel for every Python: installs it with torch into an environment of each that
# is given, else of each from 3.10 to 3.14 that this machine has (on PATH or of
# pyenv), and runs the Python tests that need no GPU. 6 GB, in a temporary folder, and
# some minutes each.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$REPRISE_ROOT"

pythons=("$@")
if [ $# -eq 0 ]; then
  for minor in 10 11 12 13 14; do
    python=$(find_python "$minor")
    [ -z "$python" ] || pythons+=("$python")
  done
fi
echo "Pythons: ${pythons[*]}"

prepare

stage "wheel"
work=$(mktemp -d)
trap 'end_script; rm -rf "$work"' EXIT
scripts/build_wheel.sh "$work"

unset PYTHONPATH REPRISE_LIBRARY
for python in "${pythons[@]}"; do
  stage "$("$python" --version)"
  "$python" -m venv "$work/env"
  # Of what tests use beside torch any version will do.
  # shellcheck disable=SC2046  # one word a requirement
  pip_install "$work/env" numpy pytest \
    $(grep -E '^torch(vision)?==' requirements/dev.txt) "$work"/reprise-*.whl
  (
    cd tests/python  # nothing of the checkout's package is on the path
    OMP_NUM_THREADS=1 "$work/env/bin/python" -m pytest -q -p no:cacheprovider \
      -m "not gpu" .
  )
  rm -rf "$work/env"
done
