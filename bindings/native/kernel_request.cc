#include "bindings/native/kernel_request.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "kernels/nvrtc.h"
#include "kernels/nvrtc_library.h"

namespace reprise {
namespace native {
namespace {

// What a host runtime stands for.
constexpr char kHostArchitecture[] = "sm_90";

// A name that only the compiler can look up; others are found in its code.
bool IsExpression(const std::string& name) {
  return !std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == ':';
  });
}

// It may include something. One that does not is compiled, and found again,
// wherever the toolkit lies.
bool MayInclude(const KernelSource& source) {
  const auto includes = [](const std::string& text) {
    return text.find("include") != std::string::npos;
  };
  return includes(source.source) ||
         std::any_of(source.options.begin(), source.options.end(), includes);
}

}  // namespace

kernels::KernelSource RequestOf(const KernelSource& source) {
  kernels::KernelSource request{.source = source.source,
                                .name = source.file,
                                .architecture = source.architecture,
                                .options = source.options,
                                .headers = source.headers,
                                .include_paths = source.include_paths,
                                .name_expressions = source.instances};
  if (MayInclude(source)) {
    for (const std::string& path : kernels::ToolkitIncludePaths()) {
      request.include_paths.push_back(path);
    }
  }
  std::vector<std::string>& names = request.name_expressions;
  if (IsExpression(source.name)) names.push_back(source.name);
  // In one order, so that sources that name the same are the same.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return request;
}

}  // namespace native

Result<std::string> CheckSource(const KernelSource& source) {
  kernels::KernelSource request = native::RequestOf(source);
  if (request.architecture.empty()) {
    request.architecture = native::kHostArchitecture;
  }
  // So that the compiler looks up plain names, too; mangled ones it does not
  // know.
  if (!source.name.empty() && !native::IsExpression(source.name) &&
      !source.name.starts_with("_Z")) {
    request.name_expressions.push_back(source.name);
  }
  REPRISE_ASSIGN_OR_RETURN(const kernels::Nvrtc* nvrtc, kernels::Nvrtc::Load());
  REPRISE_ASSIGN_OR_RETURN(kernels::CompiledCode code, nvrtc->Compile(request));
  return std::move(code.log);
}

}  // namespace reprise
