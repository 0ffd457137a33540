#include "perf/run.h"

#include <benchmark/benchmark.h>
#include <cuda.h>

#include <array>
#include <fstream>
#include <regex>
#include <string>

#include "engine/device/driver.h"
#include "tests/engine/device/cuda_libraries.h"

namespace reprise::perf {
namespace {

// As nvidia-smi writes it; the driver's table only tells the version of CUDA.
std::string DriverVersion() {
  for (const char* path :
       {"/proc/driver/nvidia/version", "/sys/module/nvidia/version"}) {
    std::ifstream file(path);
    std::string line;
    std::smatch found;
    if (std::getline(file, line) &&
        std::regex_search(line, found,
                          std::regex("[0-9]{3,}\\.[0-9]+(\\.[0-9]+)?"))) {
      return found.str();
    }
  }
  return "unknown";
}

void AddDevice() {
  const auto driver = device::Driver::Load();
  CUdevice device = 0;
  std::array<char, 256> name{};
  if (!driver || (*driver)->cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      (*driver)->cuDeviceGetName(name.data(), name.size(), device) !=
          CUDA_SUCCESS) {
    benchmark::AddCustomContext("gpu", "none");
    return;
  }
  benchmark::AddCustomContext("gpu", name.data());
  benchmark::AddCustomContext("driver", DriverVersion());
  int version = 0;
  if ((*driver)->cuDriverGetVersion(&version) == CUDA_SUCCESS) {
    benchmark::AddCustomContext("cuda",
                                std::to_string(version / 1000) + "." +
                                    std::to_string(version % 1000 / 10));
  }
}

}  // namespace

int RunBenchmarks(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    line += (i > 0 ? " " : "") + std::string(argv[i]);
  }
  device::PreloadCudaLibraries();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("command", line);
  AddDevice();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace reprise::perf
