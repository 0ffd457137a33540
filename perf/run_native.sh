#!/usr/bin/env bash
# perf/run_native.sh [--commit ID] BUILD OUT [BENCHMARK-ARGUMENT...]
#
# Runs the benchmarks of the C++ API that the build folder BUILD has, one after
# another, and keeps each one's record in OUT: <name>.json, with the GPU, the
# driver, the commit and the command line in its context. Arguments are Google
# Benchmark's (--benchmark_filter=...). The commit is that of this checkout unless
# it is given, as it must be where there is no repository.
# Those that need a GPU say so and record nothing else where there is none.
set -euo pipefail

usage() { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
commit=
if [[ ${1:-} == --commit ]]; then
  [[ $# -ge 2 ]] || usage
  commit=$2
  shift 2
fi
[[ $# -ge 2 ]] || usage
build=$1
out=$2
shift 2

if [[ -z $commit ]]; then
  root=$(cd "$(dirname "$0")/.." && pwd)
  commit=$(git -C "$root" describe --always --dirty --exclude='*' 2>/dev/null) || commit=unknown
fi

found=0
failed=0
mkdir -p "$out"
for program in "$build"/perf/bindings/native/*_benchmark "$build"/perf/kernels/*_benchmark; do
  [[ -x $program ]] || continue
  found=1
  name=$(basename "$program" _benchmark)
  name=${name#bindings_native_}
  echo "== $name"
  # Written beside its place first: a record is whole or is not there.
  if "$program" --benchmark_context="commit=$commit" \
      --benchmark_out="$out/$name.json.part" --benchmark_out_format=json "$@"; then
    mv "$out/$name.json.part" "$out/$name.json"
  else
    echo "$program failed" >&2
    rm -f "$out/$name.json.part"
    failed=1
  fi
done
if [[ $found == 0 ]]; then
  echo "no benchmark in $build/perf: build it with the preset bench (REPRISE_BENCHMARKS=ON)" >&2
  exit 1
fi
exit $failed
