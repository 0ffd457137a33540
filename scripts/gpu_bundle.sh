#!/usr/bin/env bash
# scripts/gpu_bundle.sh BUILD FOLDER [BUILD-TOOL-ARGUMENT...]
#
# Builds in BUILD (a configured build folder with torch) what a machine with a GPU
# runs, and puts it into FOLDER, stripped: the C++ tests that need a GPU,
# libreprise_torch_*.so and libtbb.so.12. perf/gpu_tests.py runs it there.
set -euo pipefail

[[ $# -ge 2 ]] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
build=$1
folder=$2
shift 2

cmake --build "$build" --target reprise_gpu_tests reprise_torch "$@"
# Made anew beside its place: what is carried is of one build.
part=$folder.part
rm -rf "$part"
for component in gpu_tests python; do
  cmake --install "$build" --component "$component" --strip --prefix "$part" >/dev/null
done
mv "$part"/reprise/* "$part"
rmdir "$part/reprise"
rm -rf "$folder"
mv "$part" "$folder"
du -sh "$folder"
