#!/usr/bin/env bash
# Shows Reprise on real models, from a bare checkout on a fresh Debian 12:
# installs what is missing, builds, runs examples/demo.py with the arguments given.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

echo "Reprise on real models: what is replayed, whether its bits are eager's, and both times."
echo "First it installs what is missing (5 GB for Python), and compiles: four to six minutes on two cores"
echo "where nothing was compiled before."

prepare

stage "build"
build once reprise_torch

stage "demo"
use_package once
python "$REPRISE_ROOT/examples/demo.py" "$@"
