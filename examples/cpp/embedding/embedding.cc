// Heat on a ring of cells, inside a program that knows Reprise from its
// installed package only. Each call of the program advances the ring by 32
// steps, as one batch; from the third call on the batch is one graph.
//
//   embedding [calls]
//
// Runs on the first GPU, or, where there is none, with functions of the host as
// kernels. Compares the result with plain loops, bit for bit.

#include <reprise.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

using reprise::In;
using reprise::LaunchConfig;
using reprise::Out;
using reprise::Result;
using reprise::Runtime;
using reprise::RuntimeOptions;
using reprise::Status;

constexpr int kCells = 4096;
constexpr int kStepsOfACall = 32;
constexpr unsigned kThreads = 128;

using Diffuse = void(const float* before, float* after, int cells);

constexpr char kSource[] = R"(
extern "C" __global__ void diffuse(const float* before, float* after,
                                   int cells) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= cells) return;
  float left = before[(i + cells - 1) % cells];
  float right = before[(i + 1) % cells];
  after[i] = 0.25f * (left + right) + 0.5f * before[i];
})";

void DiffuseOnHost(const float* before, float* after, int cells) {
  for (int i = 0; i < cells; ++i) {
    const float left = before[(i + cells - 1) % cells];
    const float right = before[(i + 1) % cells];
    after[i] = 0.25f * (left + right) + 0.5f * before[i];
  }
}

// A GPU with kernels from source, or the host with the same as functions.
Result<std::pair<Runtime, reprise::Kernel<Diffuse>>> Open() {
  auto on_gpu = Runtime::Create({});
  if (on_gpu) {
    REPRISE_ASSIGN_OR_RETURN(auto kernel,
                             (on_gpu->CompileKernel<Diffuse>(
                                 {.source = kSource, .name = "diffuse"})));
    return std::pair(*on_gpu, kernel);
  }
  std::printf("no GPU (%s): on the host\n", on_gpu.error().message().c_str());
  REPRISE_ASSIGN_OR_RETURN(Runtime runtime,
                           Runtime::Create({.device = RuntimeOptions::kHost}));
  REPRISE_ASSIGN_OR_RETURN(
      auto kernel,
      (runtime.HostKernel<Diffuse>(
          "diffuse", [](const LaunchConfig&, const float* before, float* after,
                        int cells) { DiffuseOnHost(before, after, cells); })));
  return std::pair(runtime, kernel);
}

std::vector<float> Start() {
  std::vector<float> heat(kCells);
  for (int i = 0; i < kCells; ++i) {
    heat[i] = static_cast<float>(i * 37 % 101) * 0.731f;
  }
  return heat;
}

Status Run(int calls) {
  REPRISE_ASSIGN_OR_RETURN(const auto opened, Open());
  const auto& [runtime, diffuse] = opened;
  REPRISE_ASSIGN_OR_RETURN(auto stream, runtime.CreateStream());
  std::vector<float> expected = Start();
  REPRISE_ASSIGN_OR_RETURN(auto here, stream.Upload(expected));
  REPRISE_ASSIGN_OR_RETURN(auto there, runtime.Allocate<float>(kCells));

  const LaunchConfig config{.grid = {(kCells + kThreads - 1) / kThreads},
                            .block = {kThreads}};
  for (int call = 0; call < calls; ++call) {
    auto batch = stream.BeginBatch();
    for (int step = 0; step < kStepsOfACall; step += 2) {
      batch.Launch(diffuse, config, In(here), Out(there), kCells);
      batch.Launch(diffuse, config, In(there), Out(here), kCells);
    }
    REPRISE_RETURN_IF_ERROR(batch.Submit());
    // So that even a short run shows replays; others need not wait.
    stream.WaitForBuilds();
  }
  std::vector<float> heat(kCells);
  REPRISE_RETURN_IF_ERROR(stream.CopyToHost(heat, here));

  std::vector<float> other(kCells);
  for (int step = 0; step < calls * kStepsOfACall; ++step) {
    DiffuseOnHost(expected.data(), other.data(), kCells);
    expected.swap(other);
  }
  const reprise::StreamStats stats = stream.stats();
  std::printf(
      "%llu batches, %llu of them replayed, %llu launches by themselves\n",
      static_cast<unsigned long long>(stats.batches),
      static_cast<unsigned long long>(stats.replayed),
      static_cast<unsigned long long>(stats.launches));
  if (std::memcmp(heat.data(), expected.data(), kCells * sizeof(float)) != 0) {
    return reprise::Fail(reprise::Code::kInternal,
                         "the result is not that of plain loops");
  }
  std::printf("the bits of plain loops\n");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const Status run = Run(argc > 1 ? std::atoi(argv[1]) : 10);
  if (run) return 0;
  std::fprintf(stderr, "embedding: %s\n", run.error().message().c_str());
  return 1;
}
