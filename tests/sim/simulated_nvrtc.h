// An NVRTC that compiles nothing, behind NVRTC's table.

#ifndef REPRISE_TESTS_SIM_SIMULATED_NVRTC_H_
#define REPRISE_TESTS_SIM_SIMULATED_NVRTC_H_

#include <nvrtc.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nvrtc.h"
#include "tests/sim/failing_calls.h"

namespace reprise::sim {

// The code of a program is text that names its target and its source; its log
// says that it was compiled. Whatever is asked of a program before it was
// compiled, or after it was destroyed, is a failure of the test.
//
// One at a time, as SimulatedGpu. Every call can be made to fail.
// Single-thread.
class SimulatedNvrtc {
 public:
  SimulatedNvrtc();
  ~SimulatedNvrtc();
  SimulatedNvrtc(const SimulatedNvrtc&) = delete;
  SimulatedNvrtc& operator=(const SimulatedNvrtc&) = delete;

  // The code of such a program.
  static std::string CodeOf(const std::string& target,
                            const std::string& source) {
    return "code for " + target + " of " + source;
  }

  // Programs that were created and not destroyed.
  size_t programs() const { return programs_.size(); }

  kernels::NvrtcEntries entries;
  // One that fails gives an internal error, and does nothing but destroy.
  FailingCalls calls;
  // What programs are told that were found wrong; with a log all the same.
  nvrtcResult compile_error = NVRTC_SUCCESS;

 private:
  struct Program {
    std::string source;
    std::vector<std::string> names;  // as NVRTC would lower them
    std::vector<std::string> expressions;
    std::string code;
    std::string log;
    bool compiled = false;
  };

  void MakeEntries();
  void MakeGetters();
  static Program& Of(nvrtcProgram program);

  static inline SimulatedNvrtc* only = nullptr;

  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_SIMULATED_NVRTC_H_
