// What a kernel from source costs until it can be launched: compiled, in
// memory, on disk; and a fresh process until its first replay. Needs a GPU.

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "bindings/native/reprise.h"
#include "perf/bindings/native/measure.h"
#include "perf/run.h"
#include "tests/owned_folder.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;
using perf::Axpy;
using perf::Must;
using perf::Stop;
constexpr int kCount = 256;
constexpr LaunchConfig kConfig{.grid = {2}, .block = {128}};
constexpr char kFreshProcess[] = "--fresh-process";

double Seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// A text that no other number has.
KernelSource Source(int64_t number = 0) {
  return {.source = "constexpr int kNumber = " + std::to_string(number) + R"(;
extern "C" __global__ void axpy(float a, const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count + 0 * kNumber) y[i] += a * x[i];
}
)",
          .name = "axpy"};
}

Runtime WithCache(std::string folder) {
  return Must(Runtime::Create({.cache_dir = std::move(folder)}));
}

Kernel<Axpy> Compiled(const Runtime& runtime, const KernelSource& source) {
  auto kernel = Must(runtime.CompileKernel<Axpy>(source));
  Must(kernel.Wait());
  return kernel;
}

// Until they can all be launched, `kernels` of different sources.
void BM_CompileKernel_Cold(benchmark::State& state) {
  const Runtime runtime = WithCache("");
  int64_t number = 0;
  Compiled(runtime, Source(++number));
  for (auto _ : state) {
    std::vector<Kernel<Axpy>> kernels;
    for (int64_t i = 0; i < state.range(0); ++i) {
      kernels.push_back(Must(runtime.CompileKernel<Axpy>(Source(++number))));
    }
    for (const auto& kernel : kernels) Must(kernel.Wait());
  }
  if (runtime.stats().memory_hits > 0) state.SkipWithError("known before");
}
BENCHMARK(BM_CompileKernel_Cold)
    ->ArgName("kernels")
    ->Arg(1)
    ->Arg(16)
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Known in memory; its code still loaded or not.
void BM_CompileKernel_InMemory(benchmark::State& state) {
  const Runtime runtime = WithCache("");
  std::vector<Kernel<Axpy>> kept = {Compiled(runtime, Source())};
  if (state.range(0) == 0) kept.clear();
  for (auto _ : state) Compiled(runtime, Source());
  if (runtime.stats().compiled > 1) state.SkipWithError("compiled again");
}
BENCHMARK(BM_CompileKernel_InMemory)
    ->ArgName("loaded")
    ->Arg(1)
    ->Arg(0)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// Known on disk, in the page cache: read, checked and loaded.
void BM_CompileKernel_OnDisk(benchmark::State& state) {
  const OwnedFolder folder;
  Compiled(WithCache(folder.path()), Source());
  for (auto _ : state) {
    const Runtime runtime = WithCache(folder.path());
    const Clock::time_point begin = Clock::now();
    Compiled(runtime, Source());
    state.SetIterationTime(Seconds(Clock::now() - begin));
    if (runtime.stats().disk_hits != 1) state.SkipWithError("not on disk");
  }
}
BENCHMARK(BM_CompileKernel_OnDisk)
    ->Iterations(100)
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime();

// What a fresh process measured of itself.
struct Start {
  double create_ms = 0;   // Runtime::Create, the context's creation included
  double compile_ms = 0;  // CompileKernel and Wait
  double launch_ms = 0;   // stream, memory, a batch of plain launches, its end
  double replay_ms = 0;   // until a graph was built, launched and had run
  double nvrtc_loaded = 0;
};

Start StartFresh(const std::string& cache) {
  Start start;
  Clock::time_point before = Clock::now();
  const auto lap = [&before] {
    const Clock::time_point now = Clock::now();
    return 1e3 * Seconds(now - std::exchange(before, now));
  };
  const Runtime runtime = WithCache(cache);
  start.create_ms = lap();
  const Kernel<Axpy> axpy = Compiled(runtime, Source());
  start.compile_ms = lap();
  const Stream stream = Must(runtime.CreateStream());
  const Buffer<float> x = Must(runtime.Allocate<float>(kCount));
  const Buffer<float> y = Must(runtime.Allocate<float>(kCount));
  const auto submit = [&] {
    Batch batch = stream.BeginBatch();
    batch.Fill(Out(x), 1.0f);
    batch.Fill(Out(y), 2.0f);
    for (int i = 0; i < 8; ++i) {
      batch.Launch(axpy, kConfig, 0.5f, In(x), InOut(y), kCount);
    }
    Must(batch.Submit());
  };
  submit();
  Must(stream.Synchronize());
  start.launch_ms = lap();
  submit();
  stream.WaitForBuilds();
  submit();
  Must(stream.Synchronize());
  start.replay_ms = lap();
  std::vector<float> values(kCount);
  Must(stream.CopyToHost(values.data(), y.data(), kCount));
  if (stream.stats().replayed != 1 ||
      values != std::vector<float>(kCount, 6.0f)) {
    Stop("the last batch was not replayed, or wrong");
  }
  start.nvrtc_loaded =
      dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD) != nullptr ? 1 : 0;
  return start;
}

// This program again, as a process of its own.
Start RunFresh(const std::string& cache) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  FILE* const child = popen(
      ("'" + self + "' " + kFreshProcess + " '" + cache + "'").c_str(), "r");
  if (child == nullptr) Stop("cannot run " + self);
  Start start;
  const int read = std::fscanf(child, "%lf %lf %lf %lf %lf", &start.create_ms,
                               &start.compile_ms, &start.launch_ms,
                               &start.replay_ms, &start.nvrtc_loaded);
  if (pclose(child) != 0 || read != 5) Stop("a fresh process failed");
  return start;
}

// From the context's creation, which is not counted, to the end of the first
// replay, in a fresh process each time.
void BM_FreshProcess_ContextToReplay(benchmark::State& state) {
  const bool warm = state.range(0) != 0;
  const OwnedFolder warmed;
  RunFresh(warmed.path());
  std::vector<Start> starts;
  for (auto _ : state) {
    const OwnedFolder empty;
    const Start start = RunFresh(warm ? warmed.path() : empty.path());
    state.SetIterationTime(
        1e-3 * (start.compile_ms + start.launch_ms + start.replay_ms));
    starts.push_back(start);
  }
  const auto median = [&starts](double Start::*part) {
    std::vector<double> values;
    for (const Start& start : starts) values.push_back(start.*part);
    std::nth_element(values.begin(), values.begin() + values.size() / 2,
                     values.end());
    return values[values.size() / 2];
  };
  state.counters["create_ms"] = median(&Start::create_ms);
  state.counters["compile_ms"] = median(&Start::compile_ms);
  state.counters["launch_ms"] = median(&Start::launch_ms);
  state.counters["replay_ms"] = median(&Start::replay_ms);
  state.counters["nvrtc_loaded"] = median(&Start::nvrtc_loaded);
}
BENCHMARK(BM_FreshProcess_ContextToReplay)
    ->ArgName("warm")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  using namespace reprise;
  if (argc == 3 && std::strcmp(argv[1], kFreshProcess) == 0) {
    const Start start = StartFresh(argv[2]);
    std::printf("%f %f %f %f %f\n", start.create_ms, start.compile_ms,
                start.launch_ms, start.replay_ms, start.nvrtc_loaded);
    return 0;
  }
#ifdef REPRISE_TEST_CUDA_LIBRARY_DIR
  // Where fresh processes find them.
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH",
         (std::string(REPRISE_TEST_CUDA_LIBRARY_DIR) +
          (path == nullptr ? "" : ":" + std::string(path)))
             .c_str(),
         1);
#endif
  return perf::RunBenchmarks(argc, argv);
}
