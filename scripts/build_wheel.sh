#!/usr/bin/env bash
# scripts/build_wheel.sh FOLDER
#
# Builds the wheel into FOLDER, in the environment that is entered. Compiled as the
# preset release compiles, so that ccache has done it already: the same flags, and
# CMake's name for the compiler (pip would take Python's, g++), because ccache tells
# compilers apart by name.
set -euo pipefail

[[ $# -eq 1 ]] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
export CXX=${CXX:-c++}
python -m pip wheel --quiet --no-input --disable-pip-version-check --no-deps \
  --no-build-isolation --config-settings cmake.define.REPRISE_WERROR=ON \
  --wheel-dir "$folder" .
ls -l "$folder"/reprise-*-py3-none-*.whl
