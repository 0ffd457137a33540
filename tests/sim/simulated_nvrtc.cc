#include "tests/sim/simulated_nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace reprise::sim {

SimulatedNvrtc::SimulatedNvrtc() {
  EXPECT_EQ(only, nullptr);
  only = this;
  MakeEntries();
  MakeGetters();
}

SimulatedNvrtc::~SimulatedNvrtc() { only = nullptr; }

SimulatedNvrtc::Program& SimulatedNvrtc::Of(nvrtcProgram program) {
  for (const auto& one : only->programs_) {
    if (reinterpret_cast<nvrtcProgram>(one.get()) == program) return *one;
  }
  ADD_FAILURE() << "a program that is not there";
  static Program none;
  return none;
}

#define REPRISE_ENTER(name) \
  if (only->calls.Fails(name)) return NVRTC_ERROR_INTERNAL_ERROR

void SimulatedNvrtc::MakeEntries() {
  entries.nvrtcVersion = [](int* major, int* minor) {
    REPRISE_ENTER("nvrtcVersion");
    *major = 13;
    *minor = 7;
    return NVRTC_SUCCESS;
  };
  entries.nvrtcGetNumSupportedArchs = [](int* count) {
    REPRISE_ENTER("nvrtcGetNumSupportedArchs");
    *count = 2;
    return NVRTC_SUCCESS;
  };
  entries.nvrtcGetSupportedArchs = [](int* architectures) {
    REPRISE_ENTER("nvrtcGetSupportedArchs");
    architectures[0] = 80;
    architectures[1] = 90;
    return NVRTC_SUCCESS;
  };
  entries.nvrtcGetErrorString = [](nvrtcResult) { return "SIMULATED"; };
  entries.nvrtcCreateProgram = [](nvrtcProgram* program, const char* source,
                                  const char*, int, const char* const*,
                                  const char* const*) {
    REPRISE_ENTER("nvrtcCreateProgram");
    only->programs_.push_back(std::make_unique<Program>());
    only->programs_.back()->source = source;
    *program = reinterpret_cast<nvrtcProgram>(only->programs_.back().get());
    return NVRTC_SUCCESS;
  };
  entries.nvrtcDestroyProgram = [](nvrtcProgram* program) {
    const Program* ended = &Of(*program);
    std::erase_if(only->programs_,
                  [ended](const auto& one) { return one.get() == ended; });
    *program = nullptr;
    REPRISE_ENTER("nvrtcDestroyProgram");
    return NVRTC_SUCCESS;
  };
  entries.nvrtcAddNameExpression = [](nvrtcProgram program,
                                      const char* expression) {
    REPRISE_ENTER("nvrtcAddNameExpression");
    Program& to = Of(program);
    EXPECT_FALSE(to.compiled);
    to.expressions.emplace_back(expression);
    to.names.push_back(std::string("_Z") + expression);
    return NVRTC_SUCCESS;
  };
  entries.nvrtcCompileProgram = [](nvrtcProgram program, int count,
                                   const char* const* options) {
    Program& compiled = Of(program);
    EXPECT_FALSE(compiled.compiled);
    compiled.compiled = true;
    compiled.log = "SIMULATED log";
    REPRISE_ENTER("nvrtcCompileProgram");
    if (only->compile_error != NVRTC_SUCCESS) return only->compile_error;
    constexpr std::string_view kTarget = "--gpu-architecture=";
    for (int i = 0; i < count; ++i) {
      if (!std::string_view(options[i]).starts_with(kTarget)) continue;
      compiled.code = CodeOf(options[i] + kTarget.size(), compiled.source);
    }
    return NVRTC_SUCCESS;
  };
}

void SimulatedNvrtc::MakeGetters() {
  // Sizes count the final zero.
  static constexpr auto kSize = [](const char* name, nvrtcProgram program,
                                   std::string Program::*text, size_t* size) {
    REPRISE_ENTER(name);
    EXPECT_TRUE(Of(program).compiled);
    *size = (Of(program).*text).size() + 1;
    return NVRTC_SUCCESS;
  };
  static constexpr auto kGet = [](const char* name, nvrtcProgram program,
                                  std::string Program::*text, char* to) {
    REPRISE_ENTER(name);
    EXPECT_TRUE(Of(program).compiled);
    std::memcpy(to, (Of(program).*text).c_str(),
                (Of(program).*text).size() + 1);
    return NVRTC_SUCCESS;
  };
  entries.nvrtcGetProgramLogSize = [](nvrtcProgram program, size_t* size) {
    return kSize("nvrtcGetProgramLogSize", program, &Program::log, size);
  };
  entries.nvrtcGetProgramLog = [](nvrtcProgram program, char* to) {
    return kGet("nvrtcGetProgramLog", program, &Program::log, to);
  };
  entries.nvrtcGetCUBINSize = [](nvrtcProgram program, size_t* size) {
    return kSize("nvrtcGetCUBINSize", program, &Program::code, size);
  };
  entries.nvrtcGetCUBIN = [](nvrtcProgram program, char* to) {
    return kGet("nvrtcGetCUBIN", program, &Program::code, to);
  };
  entries.nvrtcGetPTXSize = [](nvrtcProgram program, size_t* size) {
    return kSize("nvrtcGetPTXSize", program, &Program::code, size);
  };
  entries.nvrtcGetPTX = [](nvrtcProgram program, char* to) {
    return kGet("nvrtcGetPTX", program, &Program::code, to);
  };
  entries.nvrtcGetLoweredName = [](nvrtcProgram program, const char* expression,
                                   const char** name) {
    REPRISE_ENTER("nvrtcGetLoweredName");
    const Program& of = Of(program);
    EXPECT_TRUE(of.compiled);
    const auto found =
        std::find(of.expressions.begin(), of.expressions.end(), expression);
    if (found == of.expressions.end()) {
      return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    }
    *name =
        of.names[static_cast<size_t>(found - of.expressions.begin())].c_str();
    return NVRTC_SUCCESS;
  };
}

#undef REPRISE_ENTER

}  // namespace reprise::sim
