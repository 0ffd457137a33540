#!/usr/bin/env bash
# scripts/test_torch.sh VERSION [--python [pytest's arguments...]]
#
# Tests with another torch than the one that the other scripts use (2.15, say) what uses
# torch and needs no GPU. --python: Python's tests alone, with a library that is built in
# half the time. Makes a Python environment beside theirs (6 GB, some minutes, kept), and
# a build folder, build/torch-VERSION.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
usage() { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
[[ $# -ge 1 ]] || usage
version=$1
shift
preset=release targets=(reprise_torch tests/bindings/torch/all)
if [[ $# -gt 0 ]]; then
  [[ $1 == --python ]] || usage
  shift
  preset=once targets=(reprise_torch)
fi
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
cmake --preset "$preset" -B "$build" >/dev/null
cmake --build "$build" -j "$jobs" --target "${targets[@]}"

if [[ $preset == release ]]; then
  stage "C++ tests"
  ctest --test-dir "$build/tests/bindings/torch" --output-on-failure -j "$jobs" -LE gpu
fi

stage "Python tests"
use_package "torch-$version"
run_python_tests "$@"
