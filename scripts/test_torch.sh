#!/usr/bin/env bash
# scripts/test_torch.sh VERSION
#
# Tests with another torch than the one that the other scripts use (2.15, say) what uses
# torch and needs no GPU. Makes a Python environment beside theirs (6 GB, some minutes,
# kept), and a build folder, build/torch-VERSION.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[[ $# -eq 1 ]] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
version=$1
cd "$REPRISE_ROOT"

# The same requirements, but for torch's version and what goes by it.
mkdir -p build
sed -e "s/^torch==.*/torch==$version.*/" -e 's/^\(torchvision\|cuda-toolkit.*\)==.*/\1/' \
  "$requirements" >"build/requirements-$version.txt"
requirements=$REPRISE_ROOT/build/requirements-$version.txt
unset REPRISE_ENV_DIR

prepare
python -c 'import torch; print("torch", torch.__version__)'

stage "build"
build=build/torch-$version
cmake --preset release -B "$build" >/dev/null
cmake --build "$build" -j "$(nproc)" --target reprise_torch tests/bindings/torch/all

stage "C++ tests"
ctest --test-dir "$build/tests/bindings/torch" --output-on-failure -j "$(nproc)" -LE gpu

stage "Python tests"
use_package "torch-$version"
python -m pytest -q -m "not gpu" tests/python
