// What graphs hold, by the driver alone: bytes a node, on the host and on the
// device. Needs a GPU.

#include <benchmark/benchmark.h>
#include <cuda.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "perf/bindings/native/by_hand.h"
#include "perf/bindings/native/measure.h"

namespace reprise {
namespace {

using perf::HandGraph;
using perf::RawLaunch;

CUfunction TheKernel() {
  static const CUfunction axpy =
      perf::TheDevice().Load(perf::kAxpySource, {"axpy"})[0];
  return axpy;
}

// A line; its launches touch no memory.
std::unique_ptr<HandGraph> Describe(CUfunction axpy, size_t nodes) {
  std::vector<RawLaunch> launches;
  device::Dependencies dependencies(nodes);
  for (uint32_t i = 0; i < nodes; ++i) {
    const float* const x = nullptr;
    float* const y = nullptr;
    launches.emplace_back(axpy, 2, 128, 1.0f, x, y, 0);
    if (i > 0) dependencies[i] = {i - 1};
  }
  return std::make_unique<HandGraph>(std::move(launches), dependencies);
}

// What the process and the device hold.
struct Memory {
  static Memory Now() {
    Memory now;
    const struct mallinfo2 info = mallinfo2();
    now.allocated = static_cast<double>(info.uordblks + info.hblkhd);
    if (FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
      unsigned long long all = 0;
      unsigned long long resident = 0;
      if (std::fscanf(file, "%llu %llu", &all, &resident) == 2) {
        now.resident = static_cast<double>(resident) *
                       static_cast<double>(sysconf(_SC_PAGESIZE));
      }
      std::fclose(file);
    }
    size_t free = 0;
    size_t total = 0;
    REPRISE_MUST(perf::TheDevice().driver, cuMemGetInfo(&free, &total));
    now.device = static_cast<double>(total - free);
    return now;
  }

  double allocated = 0;  // by malloc
  double resident = 0;
  double device = 0;
};

// Bytes a node of a chain: of its description (some 90 of them the benchmark's
// own), and of its executable graph once it was launched. What an earlier graph
// has left to the driver counts for nobody.
void BM_Graph_Memory(benchmark::State& state) {
  if (!perf::HasGpu(state)) return;
  perf::RawDevice& device = perf::TheDevice();
  const CUfunction axpy = TheKernel();
  static const CUstream stream = device.MakeStream();
  const auto nodes = static_cast<size_t>(state.range(0));
  const auto graphs = static_cast<size_t>(state.range(1));
  const auto first = Describe(axpy, nodes);
  first->Instantiate();
  first->Launch(stream);
  REPRISE_MUST(device.driver, cuStreamSynchronize(stream));
  for (auto _ : state) {
    std::vector<std::unique_ptr<HandGraph>> all;
    all.reserve(graphs);
    malloc_trim(0);
    const Memory before = Memory::Now();
    for (size_t i = 0; i < graphs; ++i) all.push_back(Describe(axpy, nodes));
    const Memory described = Memory::Now();
    for (const auto& graph : all) {
      graph->Instantiate();
      graph->Upload(stream);
    }
    for (const auto& graph : all) graph->Launch(stream);
    REPRISE_MUST(device.driver, cuStreamSynchronize(stream));
    const Memory made = Memory::Now();
    const auto report = [&](const std::string& what, const Memory& from,
                            const Memory& to) {
      const auto count = static_cast<double>(nodes * graphs);
      state.counters[what + "_malloc_bytes"] =
          (to.allocated - from.allocated) / count;
      state.counters[what + "_resident_bytes"] =
          (to.resident - from.resident) / count;
      state.counters[what + "_device_bytes"] =
          (to.device - from.device) / count;
    };
    report("description", before, described);
    report("executable", described, made);
  }
}
BENCHMARK(BM_Graph_Memory)
    ->ArgNames({"nodes", "graphs"})
    ->Args({1, 1024})
    ->Args({16, 512})
    ->Args({64, 256})
    ->Args({512, 64})
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
}  // namespace reprise
