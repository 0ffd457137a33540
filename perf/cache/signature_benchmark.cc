#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "cache/signature.h"

namespace reprise::cache {
namespace {

// The state chains: this is the latency of an update, as a session sees it.
void BM_SignatureHasher_Update(benchmark::State& state) {
  std::vector<uint64_t> words(state.range(0));
  std::iota(words.begin(), words.end(), 1);
  SignatureHasher hasher;
  for (auto _ : state) {
    hasher.Update(words);
    benchmark::DoNotOptimize(hasher.Value());
  }
}
BENCHMARK(BM_SignatureHasher_Update)
    ->ArgName("words")
    ->Arg(1)
    ->Arg(8)
    ->Arg(16)
    ->Arg(24)
    ->Arg(32)
    ->Arg(64)
    ->Arg(256);

}  // namespace
}  // namespace reprise::cache
