#include "kernels/nvrtc.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/device/shared_library.h"
#include "kernels/architecture.h"
#include "kernels/kernel_names.h"
#include "kernels/nvrtc_library.h"
#include "kernels/nvrtc_program.h"

namespace reprise::kernels {
namespace {

using base::Code;
using base::Fail;
using base::Status;

base::Result<const Nvrtc*> LoadNvrtc() {
  REPRISE_ASSIGN_OR_RETURN(const NvrtcLibrary library, OpenNvrtc());
  NvrtcEntries entries;
#define REPRISE_LOAD(name)                                            \
  entries.name = reinterpret_cast<decltype(&::name)>(                 \
      device::FindSymbol(library.handle, #name));                     \
  if (entries.name == nullptr) {                                      \
    return Fail(Code::kUnavailable, library.path + " has no " #name); \
  }
  REPRISE_NVRTC_ENTRIES(REPRISE_LOAD)
#undef REPRISE_LOAD
  REPRISE_ASSIGN_OR_RETURN(Nvrtc nvrtc, Nvrtc::Create(entries));
  return new Nvrtc(std::move(nvrtc));
}

// NVRTC takes texts up to their first zero.
Status CheckTexts(const KernelSource& source) {
  const auto check = [](const std::string& text, const char* what) -> Status {
    const size_t zero = text.find('\0');
    if (zero == std::string::npos) return {};
    return Fail(Code::kInvalidArgument,
                std::string(what) + " has a zero byte at offset " +
                    std::to_string(zero) + "; give text without zeros");
  };
  REPRISE_RETURN_IF_ERROR(check(source.source, "the source"));
  REPRISE_RETURN_IF_ERROR(check(source.name, "the source's name"));
  for (const auto& [name, text] : source.headers) {
    REPRISE_RETURN_IF_ERROR(check(name, "a header's name"));
    REPRISE_RETURN_IF_ERROR(check(text, "a header"));
  }
  for (const std::string& option : source.options) {
    REPRISE_RETURN_IF_ERROR(check(option, "an option"));
  }
  for (const std::string& path : source.include_paths) {
    REPRISE_RETURN_IF_ERROR(check(path, "an include path"));
  }
  for (const std::string& expression : source.name_expressions) {
    REPRISE_RETURN_IF_ERROR(check(expression, "a name expression"));
  }
  return {};
}

// The kernels of a source that are of no template, as PTX has them; nothing if
// it does not compile.
std::optional<std::vector<std::string>> KernelsOf(const NvrtcEntries& nvrtc,
                                                  KernelSource source,
                                                  const std::string& target) {
  source.name_expressions.clear();
  const std::string number = target.substr(target.find('_'));
  const auto code = NvrtcProgram(nvrtc, source).Compile("compute" + number);
  if (!code) return std::nullopt;
  return KernelsOfPtx({code->image.data(), code->image.size()});
}

// A name as in "&table" is a variable's; others are kernels'.
bool IsVariable(const std::string& name) { return name.starts_with('&'); }

bool IsPlain(const std::string& name) {
  return name.find_first_of("<(&") == std::string::npos;
}

// What is wrong with a source of which NVRTC does not know these names: what
// it has instead, and the compiler's log where that may tell more.
std::string WhyUnknown(const NvrtcEntries& nvrtc, const KernelSource& source,
                       const std::string& target,
                       const std::vector<std::string>& unknown,
                       const std::string& log) {
  std::string names;
  for (const std::string& name : unknown) {
    names.append(names.empty() ? "" : ", ").append(name);
  }
  const auto kernels = KernelsOf(nvrtc, source, target);
  const auto kernel = std::ranges::find_if_not(unknown, IsVariable);
  if (!kernels.has_value() || kernel == unknown.end()) {
    return source.name + " has no " + names + "\n" + log;
  }
  const std::string why =
      source.name + " " +
      WhyNoKernel(*kernel, *kernels, KernelTemplatesOf(source.source));
  if (unknown.size() == 1 && IsPlain(*kernel)) return why;
  return why + (unknown.size() > 1 ? " (of " + names + ")\n" : "\n") + log;
}

}  // namespace

base::Result<const Nvrtc*> Nvrtc::Load() {
  // Never destroyed: a build may use it until the very end.
  static const auto* const loaded = new base::Result<const Nvrtc*>(LoadNvrtc());
  return *loaded;
}

base::Result<Nvrtc> Nvrtc::Create(const NvrtcEntries& entries) {
  Nvrtc nvrtc(entries);
  int major = 0;
  int minor = 0;
  REPRISE_RETURN_IF_ERROR(
      Check(entries, entries.nvrtcVersion(&major, &minor), "nvrtcVersion"));
  nvrtc.version_ = std::to_string(major) + "." + std::to_string(minor);
  int count = 0;
  REPRISE_RETURN_IF_ERROR(Check(entries,
                                entries.nvrtcGetNumSupportedArchs(&count),
                                "nvrtcGetNumSupportedArchs"));
  nvrtc.architectures_.resize(static_cast<size_t>(count));
  REPRISE_RETURN_IF_ERROR(Check(
      entries, entries.nvrtcGetSupportedArchs(nvrtc.architectures_.data()),
      "nvrtcGetSupportedArchs"));
  return nvrtc;
}

base::Result<CompiledCode> Nvrtc::Compile(const KernelSource& source) const {
  REPRISE_ASSIGN_OR_RETURN(const std::string target,
                           TargetFor(source.architecture));
  return CompileFor(target, source);
}

base::Result<CompiledCode> Nvrtc::CompileFor(const std::string& target,
                                             const KernelSource& source) const {
  REPRISE_RETURN_IF_ERROR(CheckTexts(source));
  NvrtcProgram program(entries_, source);
  auto code = program.Compile(target);
  if (code || program.unknown().empty()) return code;
  return Fail(
      Code::kInvalidArgument,
      WhyUnknown(entries_, source, target, program.unknown(), program.Log()));
}

base::Result<std::string> Nvrtc::TargetFor(
    const std::string& architecture) const {
  REPRISE_RETURN_IF_ERROR(CheckArchitecture(architecture));
  const std::optional<int> number = ArchitectureNumber(architecture);
  const std::vector<int>& known = architectures_;
  const auto above = std::upper_bound(known.begin(), known.end(), *number);
  if (above == known.begin()) {
    return Fail(Code::kInvalidArgument,
                "nvrtc " + version_ + " makes no code for " + architecture +
                    "; the oldest that it knows is sm_" +
                    std::to_string(known.empty() ? 0 : known.front()));
  }
  const int nearest = *std::prev(above);
  if (nearest == *number) return architecture;
  return "compute_" + std::to_string(nearest);
}

}  // namespace reprise::kernels
