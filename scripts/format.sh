#!/usr/bin/env bash
# Formats C++ and Python; with --check only says what it would change, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t cc < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc' '*.cu')
mapfile -t py < <(git ls-files --cached --others --exclude-standard '*.py')
if [ "${1:-}" = --check ]; then
  clang-format --dry-run -Werror "${cc[@]}"
  ruff check "${py[@]}"
  ruff format --check "${py[@]}"
else
  clang-format -i "${cc[@]}"
  ruff check --fix "${py[@]}"
  ruff format "${py[@]}"
fi
