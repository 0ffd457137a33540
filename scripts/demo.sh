#!/usr/bin/env bash
# Shows Reprise on real models, from a bare checkout on a fresh Debian 12:
# installs what is missing, builds, runs examples/demo.py with the arguments given.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

prepare

stage "build"
build release reprise_torch

stage "demo"
use_package release
python "$REPRISE_ROOT/examples/demo.py" "$@"
