// What code costs that has to be compiled, lies on disk, or is in memory.

#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/task.h"
#include "kernels/compiler.h"
#include "kernels/disk_cache.h"
#include "kernels/hash_bytes.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/engine/device/cuda_libraries.h"
#include "tests/owned_folder.h"

namespace reprise::kernels {
namespace {

std::shared_ptr<DiskCache> DiskIn(const OwnedFolder& folder) {
  auto disk = DiskCache::Open({.directory = folder.path()});
  if (!disk) std::abort();
  return *std::move(disk);
}

// `kernels` instances of a template.
KernelSource Source(int64_t kernels) {
  KernelSource source{
      .source =
          "template <int n> __global__ void axpy(float* y, const float* "
          "x, float a) {\n"
          "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
          "#pragma unroll\n"
          "  for (int k = 0; k < n; ++k) y[i * n + k] += a * x[i * n + "
          "k];\n}\n",
      .architecture = "sm_90"};
  for (int64_t i = 1; i <= kernels; ++i) {
    source.name_expressions.push_back("axpy<" + std::to_string(i) + ">");
  }
  return source;
}

// Compiles once before anything is measured; false, the benchmark skipped,
// where that does not work.
bool Warm(benchmark::State& state, Compiler& compiler,
          const KernelSource& source) {
  const auto code = compiler.Compile(source)->Wait();
  if (!code) {
    state.SkipWithError(code.error().message().c_str());
    return false;
  }
  state.counters["image_bytes"] = static_cast<double>((*code)->image.size());
  return true;
}

// NVRTC's own work and a key.
void BM_Compiler_Cold(benchmark::State& state) {
  device::PreloadCudaLibraries();
  base::InPlaceTaskRunner runner;
  Compiler compiler(runner, {.memory_bytes = 0});
  const KernelSource source = Source(state.range(0));
  if (!Warm(state, compiler, source)) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compiler.Compile(source)->Wait());
  }
}
BENCHMARK(BM_Compiler_Cold)
    ->ArgName("kernels")
    ->Arg(1)
    ->Arg(40)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// In memory: a key and a look-up.
void BM_Compiler_MemoryHit(benchmark::State& state) {
  device::PreloadCudaLibraries();
  base::InPlaceTaskRunner runner;
  Compiler compiler(runner);
  const KernelSource source = Source(state.range(0));
  if (!Warm(state, compiler, source)) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compiler.Compile(source)->Wait());
  }
}
BENCHMARK(BM_Compiler_MemoryHit)
    ->ArgName("kernels")
    ->Arg(1)
    ->Arg(40)
    ->Unit(benchmark::kMicrosecond);

// On disk, that is in the page cache.
void BM_Compiler_DiskHit(benchmark::State& state) {
  device::PreloadCudaLibraries();
  const OwnedFolder folder;
  base::InPlaceTaskRunner runner;
  Compiler compiler(runner, {.memory_bytes = 0, .disk = DiskIn(folder)});
  const KernelSource source = Source(state.range(0));
  if (!Warm(state, compiler, source)) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compiler.Compile(source)->Wait());
  }
  if (compiler.stats().compiled != 1) state.SkipWithError("compiled anew");
}
BENCHMARK(BM_Compiler_DiskHit)
    ->ArgName("kernels")
    ->Arg(1)
    ->Arg(40)
    ->Unit(benchmark::kMicrosecond);

// A key of a source that includes many files: each is looked at again.
void BM_Compiler_MemoryHitWithFiles(benchmark::State& state) {
  device::PreloadCudaLibraries();
  const OwnedFolder folder;
  base::InPlaceTaskRunner runner;
  Compiler compiler(runner);
  KernelSource source = Source(1);
  source.include_paths = {folder.path()};
  const std::string text(8000, ' ');
  for (int64_t i = 0; i < state.range(0); ++i) {
    const std::string name = "file_" + std::to_string(i) + ".h";
    FILE* file = fopen((folder.path() + "/" + name).c_str(), "w");
    if (file == nullptr) std::abort();
    fputs((text + "\n").c_str(), file);
    fclose(file);
    source.source = "#include <" + name + ">\n" + source.source;
  }
  // Files are remembered once their last change is some seconds old.
  std::this_thread::sleep_for(std::chrono::seconds(4));
  if (!Warm(state, compiler, source)) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(compiler.Compile(source)->Wait());
  }
}
BENCHMARK(BM_Compiler_MemoryHitWithFiles)
    ->ArgName("files")
    ->Arg(10)
    ->Arg(100)
    ->Unit(benchmark::kMicrosecond);

cache::Signature Key(uint64_t i) {
  return {i * 0x9e3779b97f4a7c15, i * 0xc2b2ae3d27d4eb4f};
}

void BM_DiskCache_Lookup(benchmark::State& state) {
  const OwnedFolder folder;
  const auto cache = DiskIn(folder);
  const std::vector<char> value(state.range(0), 'v');
  cache->Store(Key(1), value);
  for (auto _ : state) benchmark::DoNotOptimize(cache->Lookup(Key(1)));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_DiskCache_Lookup)
    ->ArgName("bytes")
    ->Arg(4'000)
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->Unit(benchmark::kMicrosecond);

void BM_DiskCache_Miss(benchmark::State& state) {
  const OwnedFolder folder;
  const auto cache = DiskIn(folder);
  for (auto _ : state) benchmark::DoNotOptimize(cache->Lookup(Key(1)));
}
BENCHMARK(BM_DiskCache_Miss)->Unit(benchmark::kMicrosecond);

void BM_DiskCache_Store(benchmark::State& state) {
  const OwnedFolder folder;
  const auto cache = DiskIn(folder);
  const std::vector<char> value(state.range(0), 'v');
  uint64_t i = 0;
  for (auto _ : state) cache->Store(Key(++i % 64), value);
}
BENCHMARK(BM_DiskCache_Store)
    ->ArgName("bytes")
    ->Arg(4'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMicrosecond);

void BM_HashBytes(benchmark::State& state) {
  const std::vector<char> bytes(state.range(0), 'v');
  for (auto _ : state) benchmark::DoNotOptimize(HashBytes(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_HashBytes)->ArgName("bytes")->Arg(100'000);

}  // namespace
}  // namespace reprise::kernels
