#include "kernels/nvrtc_program.h"

#include <algorithm>

namespace reprise::kernels {

NvrtcProgram::~NvrtcProgram() {
  if (program_ != nullptr) nvrtc_.nvrtcDestroyProgram(&program_);
}

base::Result<CompiledCode> NvrtcProgram::Compile(const std::string& target) {
  REPRISE_RETURN_IF_ERROR(Create());
  REPRISE_RETURN_IF_ERROR(Run(target));
  CompiledCode code;
  code.architecture = target;
  code.format =
      target.starts_with("sm_") ? CodeFormat::kCubin : CodeFormat::kPtx;
  code.log = Log();
  if (code.format == CodeFormat::kCubin) {
    REPRISE_ASSIGN_OR_RETURN(
        code.image, Image(nvrtc_.nvrtcGetCUBINSize, nvrtc_.nvrtcGetCUBIN));
  } else {
    REPRISE_ASSIGN_OR_RETURN(code.image,
                             Image(nvrtc_.nvrtcGetPTXSize, nvrtc_.nvrtcGetPTX));
  }
  for (const std::string& expression : source_.name_expressions) {
    const char* name = nullptr;
    REPRISE_RETURN_IF_ERROR(Check(
        nvrtc_, nvrtc_.nvrtcGetLoweredName(program_, expression.c_str(), &name),
        ("nvrtcGetLoweredName of " + expression).c_str()));
    code.lowered_names.emplace(expression, name);
  }
  return code;
}

std::string NvrtcProgram::Log() const {
  size_t size_bytes = 0;  // with the final zero
  if (nvrtc_.nvrtcGetProgramLogSize(program_, &size_bytes) != NVRTC_SUCCESS ||
      size_bytes == 0) {
    return {};
  }
  std::string log(size_bytes, '\0');
  if (nvrtc_.nvrtcGetProgramLog(program_, log.data()) != NVRTC_SUCCESS) {
    return {};
  }
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

base::Status NvrtcProgram::Create() {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const auto& [name, text] : source_.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  REPRISE_RETURN_IF_ERROR(
      Check(nvrtc_,
            nvrtc_.nvrtcCreateProgram(
                &program_, source_.source.c_str(), source_.name.c_str(),
                static_cast<int>(names.size()), texts.data(), names.data()),
            "nvrtcCreateProgram"));
  for (const std::string& expression : source_.name_expressions) {
    REPRISE_RETURN_IF_ERROR(Check(
        nvrtc_, nvrtc_.nvrtcAddNameExpression(program_, expression.c_str()),
        ("nvrtcAddNameExpression of " + expression).c_str()));
  }
  return {};
}

base::Status NvrtcProgram::Run(const std::string& target) {
  std::vector<std::string> options = {"--gpu-architecture=" + target};
  for (const std::string& path : source_.include_paths) {
    options.push_back("--include-path=" + path);
  }
  // Unless told otherwise NVRTC raises the stack's limit of the whole process
  // while it compiles, and does not lower it again after an error.
  constexpr std::string_view kStackLimit = "modify-stack-limit";
  if (std::none_of(source_.options.begin(), source_.options.end(),
                   [&](const std::string& option) {
                     return option.find(kStackLimit) != std::string::npos;
                   })) {
    options.push_back("--modify-stack-limit=false");
  }
  options.insert(options.end(), source_.options.begin(), source_.options.end());
  std::vector<const char*> arguments;
  for (const std::string& option : options) {
    arguments.push_back(option.c_str());
  }
  const nvrtcResult compiled = nvrtc_.nvrtcCompileProgram(
      program_, static_cast<int>(arguments.size()), arguments.data());
  if (compiled == NVRTC_SUCCESS) return {};
  const std::string log = Log();
  if (compiled == NVRTC_ERROR_INVALID_OPTION) {
    return base::Fail(base::Code::kInvalidArgument, WhyNoOption(log));
  }
  unknown_ = UnknownNames(log);
  const base::Error error =
      Check(nvrtc_, compiled, "nvrtcCompileProgram").error();
  return base::Fail(error.code(),
                    error.message() + " for " + source_.name + "\n" + log);
}

// The log is a line such as "nvrtc: error: unrecognized option --x found".
std::string NvrtcProgram::WhyNoOption(std::string log) const {
  constexpr std::string_view kBefore = "nvrtc: error: ";
  if (log.starts_with(kBefore)) log.erase(0, kBefore.size());
  while (!log.empty() && log.back() == '\n') log.pop_back();
  return source_.name + " has an option that NVRTC does not take (" + log +
         "): give NVRTC's own, each as one string, as in "
         "\"--use_fast_math\"";
}

std::vector<std::string> NvrtcProgram::UnknownNames(
    std::string_view log) const {
  constexpr std::string_view kBefore = "Input name expression was: \"";
  const auto without_spaces = [](std::string_view text) {
    std::string rest(text);
    std::erase(rest, ' ');
    return rest;
  };
  std::vector<std::string> unknown;
  while (true) {
    const size_t at = log.find(kBefore);
    if (at == std::string_view::npos) return unknown;
    log.remove_prefix(at + kBefore.size());
    const std::string said = without_spaces(log.substr(0, log.find('"')));
    for (const std::string& expression : source_.name_expressions) {
      if (without_spaces(expression) != said) continue;
      unknown.push_back(expression);
    }
  }
}

base::Result<std::vector<char>> NvrtcProgram::Image(
    nvrtcResult (*get_size)(nvrtcProgram, size_t*),
    nvrtcResult (*get)(nvrtcProgram, char*)) {
  size_t size_bytes = 0;
  REPRISE_RETURN_IF_ERROR(Check(nvrtc_, get_size(program_, &size_bytes),
                                "asking for the size of the code"));
  if (size_bytes <= 1) {
    return base::Fail(base::Code::kInvalidArgument,
                      "nvrtc made no code that can be loaded for " +
                          source_.name +
                          "; leave out options that ask for another output");
  }
  std::vector<char> image(size_bytes);
  REPRISE_RETURN_IF_ERROR(
      Check(nvrtc_, get(program_, image.data()), "asking for the code"));
  return image;
}

}  // namespace reprise::kernels
