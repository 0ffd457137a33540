#!/usr/bin/env bash
# scripts/test_installed.sh WHEEL PYTHON TORCH
#
# Installs the wheel with a torch (2.12, say) into a new environment of that Python, and
# runs what it installed: the package, and the tutorial's programs. 6 GB, in a
# temporary folder, and a minute or two.
set -euo pipefail

[[ $# -eq 3 ]] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
wheel=$(realpath "$1")
checkout=$(realpath "$(dirname "$0")/..")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2" -m venv "$work/env"
pip=("$work/env/bin/python" -m pip install --no-input --disable-pip-version-check
     --no-cache-dir)
[[ -t 1 ]] || pip+=(--quiet)  # a terminal shows how far it is
"${pip[@]}" "torch==$3.*" numpy
SECONDS=0
"${pip[@]}" "$wheel"
echo "the wheel was installed in $SECONDS s"
unset PYTHONPATH REPRISE_LIBRARY
cd "$work"
"$work/env/bin/reprise" --version
"$work/env/bin/python" -W ignore "$checkout/tests/python/installed.py" \
  "$checkout/docs/tutorial.md"
