// Compiled code in a simulated driver.

#ifndef REPRISE_TESTS_SIM_SIMULATED_LIBRARIES_H_
#define REPRISE_TESTS_SIM_SIMULATED_LIBRARIES_H_

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/simulated_gpu.h"

namespace reprise::sim {

// Takes real cubins and PTX: what they have kernels of is run by functions of
// the host. Code that is unloaded is gone; whatever runs it then is a failure
// of the test. Unloading waits for the device, as freeing memory does. One at a
// time, as the GPU, which outlives it. Single-thread.
class SimulatedLibraries {
 public:
  // Puts its entries into the GPU's table.
  explicit SimulatedLibraries(SimulatedGpu& gpu);
  ~SimulatedLibraries();
  SimulatedLibraries(const SimulatedLibraries&) = delete;
  SimulatedLibraries& operator=(const SimulatedLibraries&) = delete;

  // What kernels do, by their names in the code. Others are not seen there.
  std::map<std::string, SimulatedGpu::Kernel> host_code;

  size_t loaded() const { return libraries_.size(); }
  int loads = 0;        // so far
  int ready_calls = 0;  // functions that were brought onto the device

 private:
  struct Function {
    std::string name;
    SimulatedGpu::Kernel kernel;
  };
  struct Library {
    std::vector<std::unique_ptr<Function>> functions;
    // Of cubins, by their names in the code.
    std::map<std::string, std::vector<std::byte>> variables;
  };

  static Library* Find(CUlibrary handle);
  static Function* Find(CUkernel handle);
  void Unload(Library& library);

  static inline SimulatedLibraries* only = nullptr;

  SimulatedGpu& gpu_;
  std::vector<std::unique_ptr<Library>> libraries_;
  std::vector<std::unique_ptr<Function>> gone_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_SIMULATED_LIBRARIES_H_
