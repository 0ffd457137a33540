#!/usr/bin/env bash
# Everything that a change must pass, from a bare checkout on a fresh Debian 12:
# installs what is missing, builds, and runs the tests that need no GPU.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$REPRISE_ROOT"

prepare

stage "style"
scripts/format.sh --check
mypy

stage "build"
RUN=(scripts/without_cuda_toolkit.sh)
# Of the C++ tests those that need torch: the core's are run under the sanitizers below.
# The benchmark of an op's cost stands in for parts of the library: it is to link.
"${RUN[@]}" cmake --preset release -DREPRISE_BENCHMARKS=ON >/dev/null
build release reprise_torch reprise_gpu_tests tests/bindings/torch/all \
  perf/bindings/torch/all

stage "C++ tests with torch"
ctest --preset release -j "$(nproc)" -R '^(bindings/torch|architecture)/'

# Twice, the second time with builds that come late. Each is one thread, mostly, so
# both run at once; OpenMP's threads of two processes would wait for each other.
stage "Python tests"
use_package release
export OMP_NUM_THREADS=1
late=build/release/python_tests_late.log
python -m pytest -q -m "not gpu" --build-delays=1 tests/python >"$late" 2>&1 &
status=0
python -m pytest -q -m "not gpu" tests/python || status=$?
wait $! || status=$?
cat "$late"
[ "$status" -eq 0 ] || exit "$status"

stage "wheel"
RUN=()
scripts/test_wheel.sh

stage "sanitizers"
build asan-ubsan
ctest --preset asan-ubsan -j "$(nproc)"

stage "threads"
build tsan reprise_threads_tests
ctest --preset tsan -j "$(nproc)"

env -u PYTHONPATH -u REPRISE_LIBRARY scripts/test_recipes.sh

# What uses torch, with the newest that there is a library for.
env -u PYTHONPATH -u REPRISE_LIBRARY scripts/test_torch.sh 2.15
