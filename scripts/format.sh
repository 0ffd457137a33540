#!/usr/bin/env bash
# Formats C++ and Python; with --check only says what it would change, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=(bindings cache engine examples kernels perf scheduler scripts tests)
mapfile -t cc < <(find "${sources[@]}" -name '*.h' -o -name '*.cc' -o -name '*.cu')
if [ "${1:-}" = --check ]; then
  clang-format --dry-run -Werror "${cc[@]}"
  ruff check "${sources[@]}"
  ruff format --check "${sources[@]}"
else
  clang-format -i "${cc[@]}"
  ruff check --fix "${sources[@]}"
  ruff format "${sources[@]}"
fi
