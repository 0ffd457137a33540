#!/usr/bin/env bash
# scripts/build_wheel.sh FOLDER [TORCH...]
#
# Builds the wheel into FOLDER, in the environment that is entered, with libraries for
# its torch and for others: each TORCH is the folder torch/ of an installed wheel.
# Sources are compiled by the half dozen, as pyproject.toml says. CMake's name for the
# compiler is taken (pip would take Python's, g++), because ccache tells compilers apart
# by name. The tag names the C library that it needs at least
# (tests/architecture/library_test.py).
set -euo pipefail

[[ $# -ge 1 ]] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
folder=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
export CXX=${CXX:-c++}

more=
for torch in "$@"; do
  build=build/wheel-$(sed -n "s/^__version__ = '\([0-9]*\)\.\([0-9]*\).*/\1\2/p" "$torch/version.py")
  cmake --preset once -B "$build" -DREPRISE_TORCH_DIR="$torch" >/dev/null
  cmake --build "$build" --target reprise_torch
  rm -rf "$build/installed"
  cmake --install "$build" --component python --strip --prefix "$build/installed" >/dev/null
  more+="${more:+;}$(ls "$PWD/$build"/installed/reprise/libreprise_torch_*.so)"
done

quiet=(--quiet)
[[ ! -t 1 ]] || quiet=()  # on a terminal pip shows that it goes on
python -m pip wheel "${quiet[@]}" --no-input --disable-pip-version-check --no-deps \
  --no-build-isolation --config-settings cmake.define.REPRISE_WERROR=ON \
  --config-settings wheel.tags=py3-none-manylinux_2_34_x86_64 \
  --config-settings "cmake.define.REPRISE_MORE_LIBRARIES=$more" \
  --wheel-dir "$folder" .
ls -l "$folder"/reprise-*-py3-none-*.whl
