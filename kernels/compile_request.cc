#include "kernels/compile_request.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/architecture.h"
#include "kernels/hash_bytes.h"

namespace reprise::kernels {
namespace {

using base::Code;
using base::Fail;
using base::Status;

// An option's name without dashes and value: "--pch-dir=x" is "pch-dir".
std::string_view NameOf(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  return option.substr(0, option.find_first_of("= "));
}

// Options by which NVRTC reads or writes files that no key knows of.
bool TouchesFiles(std::string_view option) {
  constexpr std::string_view kNames[] = {
      "create-pch", "device-time-trace", "fdevice-time-trace", "include",
      "pch",        "pch-dir",           "pre-include",        "time",
      "use-pch"};
  return option.starts_with('-') &&
         std::find(std::begin(kNames), std::end(kNames), NameOf(option)) !=
             std::end(kNames);
}

// Moves the options that are include paths to the other include paths.
Status SortOptions(KernelSource& source) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < source.options.size(); ++i) {
    const std::string& option = source.options[i];
    const std::string_view name = NameOf(option);
    if (option.starts_with("--gpu-architecture") || name == "arch") {
      return Fail(Code::kInvalidArgument,
                  "the option '" + option +
                      "' is not accepted: give the architecture apart from "
                      "the options");
    }
    std::string_view path;
    if (option.starts_with("-I")) {
      path = std::string_view(option).substr(2);
    } else if (option.starts_with("--include-path")) {
      path = std::string_view(option).substr(14);
    } else {
      rest.push_back(option);
      continue;
    }
    path.remove_prefix(std::min(path.find_first_not_of("= "), path.size()));
    if (!path.empty()) {
      source.include_paths.emplace_back(path);
    } else if (i + 1 < source.options.size()) {
      source.include_paths.push_back(source.options[++i]);
    } else {
      return Fail(Code::kInvalidArgument,
                  "the option '" + option + "' names no folder");
    }
  }
  source.options = std::move(rest);
  return {};
}

// What a key is made of, each text with its length before it, so that no two
// lists of fields give the same bytes.
class KeyText {
 public:
  void Add(uint64_t number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void Add(std::string_view field) {
    Add(uint64_t{field.size()});
    text_.append(field);
  }
  void Add(const std::vector<std::string>& fields) {
    Add(uint64_t{fields.size()});
    for (const std::string& field : fields) Add(std::string_view(field));
  }
  cache::Signature Hash() const { return HashBytes(text_); }

 private:
  std::string text_;
};

cache::Signature KeyOf(const KernelSource& source,
                       const Dependencies& dependencies,
                       std::string_view nvrtc) {
  KeyText text;
  text.Add(kCompileKeyVersion);
  text.Add(nvrtc);
  text.Add(source.architecture);
  text.Add(source.name);
  text.Add(source.source);
  text.Add(source.options);
  text.Add(uint64_t{source.headers.size()});
  for (const auto& [name, header] : source.headers) {
    text.Add(name);
    text.Add(header);
  }
  text.Add(source.include_paths);
  text.Add(source.name_expressions);
  text.Add(uint64_t{dependencies.files.size()});
  for (const Dependencies::File& file : dependencies.files) {
    text.Add(file.path);
    text.Add(file.content.hi);
    text.Add(file.content.lo);
  }
  return text.Hash();
}

}  // namespace

base::Result<CompileRequest> MakeCompileRequest(std::string_view nvrtc_identity,
                                                KernelSource source,
                                                IncludedFiles& files) {
  REPRISE_RETURN_IF_ERROR(CheckArchitecture(source.architecture));
  REPRISE_RETURN_IF_ERROR(SortOptions(source));
  for (std::string& path : source.include_paths) {
    std::error_code error;
    path = (std::filesystem::current_path(error) / path).native();
  }
  CompileRequest request{.source = std::move(source)};
  request.dependencies = FindDependencies(request.source, files);
  // Options that NVRTC takes from the environment.
  const char* appended = std::getenv("NVRTC_APPEND_FLAGS");
  if (request.dependencies.complete &&
      (appended == nullptr || *appended == '\0') &&
      std::none_of(request.source.options.begin(), request.source.options.end(),
                   TouchesFiles)) {
    request.key = KeyOf(request.source, request.dependencies, nvrtc_identity);
  }
  return request;
}

}  // namespace reprise::kernels
