#!/usr/bin/env bash
# Runs every recipe of examples/recipes with the libraries of requirements/recipes.txt;
# none may be missing. Makes a Python environment for them on top of the other scripts'
# (350 MB, a minute, kept).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$REPRISE_ROOT"

prepare
add_environment requirements/recipes.txt

stage "build"
build release reprise_torch

stage "recipes"
use_package release
export OMP_NUM_THREADS=1 RECIPES=all
python -m pytest -q tests/python/test_recipes.py
