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
  perf/bindings/torch/all perf/scheduler/all

stage "C++ tests with torch"
ctest --preset release -j "$jobs" -R '^(bindings/torch|architecture)/'

stage "Python tests"
use_package release
run_python_tests
# Again with builds that come late: what tests expect must not depend on how soon a plan
# is there.
run_python_tests --build-delays=1

# In the oldest Python, too, where it is.
stage "wheel"
RUN=()
python=$(find_python 10)
scripts/test_wheel.sh ${python:+"$python"}

stage "sanitizers"
build asan-ubsan
ctest --preset asan-ubsan -j "$jobs"

stage "threads"
build tsan reprise_threads_tests
ctest --preset tsan -j "$jobs"

stage "recipes"
env -u PYTHONPATH -u REPRISE_LIBRARY scripts/test_recipes.sh

# Python's tests with the newest torch that there is a library for; and with a Python that
# watches dictionaries (from 3.12 on), if there is one.
stage "torch 2.15"
python=$(find_python 12)
env -u PYTHONPATH -u REPRISE_LIBRARY PATH="${python:+$(dirname "$python"):}$PATH" \
  scripts/test_torch.sh 2.15 --python
