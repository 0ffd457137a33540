#include <benchmark/benchmark.h>

#include "cache/lru_cache.h"
#include "cache/signature.h"

namespace reprise::cache {
namespace {

using Cache = PinnedLruCache<Signature, uint64_t>;

Signature Key(uint64_t i) {
  return {i * 0x9e3779b97f4a7c15, i * 0xc2b2ae3d27d4eb4f};
}

void Fill(Cache& cache, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) (void)cache.Insert(Key(i), i, 1);
}

void BM_PinnedLruCache_Hit(benchmark::State& state) {
  const uint64_t entries = state.range(0);
  Cache cache(entries);
  Fill(cache, entries);
  uint64_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(*cache.Lookup(Key(i)));
    if (++i == entries) i = 0;
  }
}
BENCHMARK(BM_PinnedLruCache_Hit)->ArgName("entries")->Arg(16)->Arg(1024);

void BM_PinnedLruCache_Miss(benchmark::State& state) {
  const uint64_t entries = state.range(0);
  Cache cache(entries);
  Fill(cache, entries);
  uint64_t i = entries;
  for (auto _ : state) {
    const Cache::Pin pin = cache.Lookup(Key(i++));
    benchmark::DoNotOptimize(pin);
  }
}
BENCHMARK(BM_PinnedLruCache_Miss)->ArgName("entries")->Arg(16)->Arg(1024);

// Each insertion pushes the oldest entry out.
void BM_PinnedLruCache_Evict(benchmark::State& state) {
  const uint64_t entries = state.range(0);
  Cache cache(entries);
  Fill(cache, entries);
  uint64_t i = entries;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.Insert(Key(i), i, 1));
    ++i;
  }
}
BENCHMARK(BM_PinnedLruCache_Evict)->ArgName("entries")->Arg(16)->Arg(1024);

}  // namespace
}  // namespace reprise::cache
