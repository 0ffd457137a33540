#include "kernels/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/device/library_identity.h"
#include "engine/device/shared_library.h"
#include "kernels/kernel_names.h"

namespace reprise::kernels {
namespace {

using base::Code;
using base::Fail;
using base::Status;

Code CodeOf(nvrtcResult result) {
  switch (result) {
    case NVRTC_ERROR_INVALID_INPUT:
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return Code::kInvalidArgument;
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return Code::kResourceExhausted;
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return Code::kUnavailable;  // its builtins library is not to be found
    default:
      return Code::kInternal;
  }
}

std::string Explain(const NvrtcEntries& nvrtc, nvrtcResult result,
                    const char* call) {
  return std::string(call) + " failed with " +
         nvrtc.nvrtcGetErrorString(result);
}

Status Check(const NvrtcEntries& nvrtc, nvrtcResult result, const char* call) {
  if (result == NVRTC_SUCCESS) return {};
  return Fail(CodeOf(result), Explain(nvrtc, result, call));
}

constexpr char kSoname[] = "libnvrtc.so.13";
constexpr char kNoNvrtc[] =
    "NVRTC of CUDA 13 was not found: install it (pip install "
    "\"nvidia-cuda-nvrtc==13.0.*\", or the CUDA toolkit), and name the folder "
    "of libnvrtc.so.13 in LD_LIBRARY_PATH";

// Which copy of NVRTC is used.
struct NvrtcFile {
  std::string path;
  std::string identity;
};

base::Result<NvrtcFile> FindNvrtc() {
  NvrtcFile file;
  file.path = device::LocateSharedLibrary(kSoname);
  auto identity = device::LibraryIdentity(file.path);
  if (!identity) {
    // Only the loader knows where it is.
    REPRISE_RETURN_IF_ERROR(device::OpenSharedLibrary(kSoname, kNoNvrtc));
    file.path = device::LocateSharedLibrary(kSoname);
    identity = device::LibraryIdentity(file.path);
  }
  if (!identity) return tl::unexpected(std::move(identity).error());
  file.identity = *std::move(identity);
  return file;
}

const base::Result<NvrtcFile>& TheNvrtcFile() {
  static const auto* const found = new base::Result<NvrtcFile>(FindNvrtc());
  return *found;
}

// In "lib64" or "targets/x86_64-linux/lib", and "include" is beside that.
std::vector<std::string> FindIncludePaths() {
  const base::Result<NvrtcFile>& file = TheNvrtcFile();
  if (!file) return {};
  std::error_code error;  // what cannot be looked at is not there
  std::filesystem::path library(file->path);
  for (const auto& path :
       {library, std::filesystem::canonical(library, error)}) {
    const std::filesystem::path headers =
        path.parent_path().parent_path() / "include";
    if (!std::filesystem::exists(headers / "cuda_fp16.h", error)) continue;
    std::vector<std::string> paths = {headers.native()};
    // The C++ library's own folder, which only nvcc knows by itself.
    if (std::filesystem::exists(headers / "cccl", error)) {
      paths.push_back(headers / "cccl");
    }
    return paths;
  }
  return {};
}

base::Result<const Nvrtc*> LoadNvrtc() {
  REPRISE_ASSIGN_OR_RETURN(const NvrtcFile& file, TheNvrtcFile());
  REPRISE_ASSIGN_OR_RETURN(void* library, device::OpenSharedLibrary(file.path));
  // Keys name what was found.
  if (device::LibraryIdentity(file.path) != file.identity) {
    return Fail(Code::kUnavailable,
                file.path +
                    " was replaced while the program ran; start it "
                    "again");
  }
  NvrtcEntries entries;
#define REPRISE_LOAD(name)                                                     \
  entries.name =                                                               \
      reinterpret_cast<decltype(&::name)>(device::FindSymbol(library, #name)); \
  if (entries.name == nullptr) {                                               \
    return Fail(Code::kUnavailable, file.path + " has no " #name);             \
  }
  REPRISE_NVRTC_ENTRIES(REPRISE_LOAD)
#undef REPRISE_LOAD
  REPRISE_ASSIGN_OR_RETURN(Nvrtc nvrtc, Nvrtc::Create(entries));
  return new Nvrtc(std::move(nvrtc));
}

// The number in "sm_90", "sm_90a" or "compute_90".
std::optional<int> ArchitectureNumber(std::string_view architecture) {
  for (const std::string_view kind : {"sm_", "compute_"}) {
    if (!architecture.starts_with(kind)) continue;
    architecture.remove_prefix(kind.size());
    if (architecture.ends_with('a') || architecture.ends_with('f')) {
      architecture.remove_suffix(1);
    }
    int number = 0;
    const char* end = architecture.data() + architecture.size();
    const auto [parsed, error] =
        std::from_chars(architecture.data(), end, number);
    if (error != std::errc() || parsed != end) return std::nullopt;
    return number;
  }
  return std::nullopt;
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

// One NVRTC program, from its creation to its destruction.
class Program {
 public:
  Program(const NvrtcEntries& nvrtc, const KernelSource& source)
      : nvrtc_(nvrtc), source_(source) {}
  ~Program() {
    if (program_ != nullptr) nvrtc_.nvrtcDestroyProgram(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  base::Result<CompiledCode> Compile(const std::string& target) {
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
      REPRISE_ASSIGN_OR_RETURN(
          code.image, Image(nvrtc_.nvrtcGetPTXSize, nvrtc_.nvrtcGetPTX));
    }
    for (const std::string& expression : source_.name_expressions) {
      const char* name = nullptr;
      REPRISE_RETURN_IF_ERROR(
          Check(nvrtc_,
                nvrtc_.nvrtcGetLoweredName(program_, expression.c_str(), &name),
                ("nvrtcGetLoweredName of " + expression).c_str()));
      code.lowered_names.emplace(expression, name);
    }
    return code;
  }

  // Of a source that does not compile: the name expressions at fault.
  const std::vector<std::string>& unknown() const { return unknown_; }

  std::string Log() const {
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

 private:
  Status Create() {
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

  Status Run(const std::string& target) {
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
    options.insert(options.end(), source_.options.begin(),
                   source_.options.end());
    std::vector<const char*> arguments;
    for (const std::string& option : options) {
      arguments.push_back(option.c_str());
    }
    const nvrtcResult compiled = nvrtc_.nvrtcCompileProgram(
        program_, static_cast<int>(arguments.size()), arguments.data());
    if (compiled == NVRTC_SUCCESS) return {};
    const std::string log = Log();
    if (compiled == NVRTC_ERROR_INVALID_OPTION) {
      return Fail(Code::kInvalidArgument, WhyNoOption(log));
    }
    unknown_ = UnknownNames(log);
    return Fail(CodeOf(compiled),
                Explain(nvrtc_, compiled, "nvrtcCompileProgram") + " for " +
                    source_.name + "\n" + log);
  }

  // The log is a line such as "nvrtc: error: unrecognized option --x found".
  std::string WhyNoOption(std::string log) const {
    constexpr std::string_view kBefore = "nvrtc: error: ";
    if (log.starts_with(kBefore)) log.erase(0, kBefore.size());
    while (!log.empty() && log.back() == '\n') log.pop_back();
    return source_.name + " has an option that NVRTC does not take (" + log +
           "): give NVRTC's own, each as one string, as in "
           "\"--use_fast_math\"";
  }

  // The name expressions that the log complains of, as they were given.
  std::vector<std::string> UnknownNames(std::string_view log) const {
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

  base::Result<std::vector<char>> Image(nvrtcResult (*get_size)(nvrtcProgram,
                                                                size_t*),
                                        nvrtcResult (*get)(nvrtcProgram,
                                                           char*)) {
    size_t size_bytes = 0;
    REPRISE_RETURN_IF_ERROR(Check(nvrtc_, get_size(program_, &size_bytes),
                                  "asking for the size of the code"));
    if (size_bytes <= 1) {
      return Fail(Code::kInvalidArgument,
                  "nvrtc made no code that can be loaded for " + source_.name +
                      "; leave out options that ask for another output");
    }
    std::vector<char> image(size_bytes);
    REPRISE_RETURN_IF_ERROR(
        Check(nvrtc_, get(program_, image.data()), "asking for the code"));
    return image;
  }

  const NvrtcEntries& nvrtc_;
  const KernelSource& source_;
  nvrtcProgram program_ = nullptr;
  std::vector<std::string> unknown_;
};

// The kernels of a source that are of no template, as PTX has them; nothing if
// it does not compile.
std::optional<std::vector<std::string>> KernelsOf(const NvrtcEntries& nvrtc,
                                                  KernelSource source,
                                                  const std::string& target) {
  source.name_expressions.clear();
  const std::string number = target.substr(target.find('_'));
  const auto code = Program(nvrtc, source).Compile("compute" + number);
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
  Program program(entries_, source);
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

base::Result<std::vector<char>> CompileToCubin(
    const std::string& source, const std::string& name, const std::string& arch,
    std::span<const std::string> options) {
  REPRISE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, Nvrtc::Load());
  const KernelSource whole{.source = source,
                           .name = name,
                           .architecture = arch,
                           .options = {options.begin(), options.end()}};
  REPRISE_ASSIGN_OR_RETURN(CompiledCode code, nvrtc->CompileFor(arch, whole));
  return std::move(code.image);
}

Status CheckArchitecture(const std::string& architecture) {
  if (ArchitectureNumber(architecture)) return {};
  return Fail(Code::kInvalidArgument, "'" + architecture +
                                          "' is no architecture; give one "
                                          "like sm_90 or compute_90");
}

const std::vector<std::string>& ToolkitIncludePaths() {
  static const auto* const found =
      new std::vector<std::string>(FindIncludePaths());
  return *found;
}

base::Result<std::string> NvrtcIdentity() {
  REPRISE_ASSIGN_OR_RETURN(const NvrtcFile& file, TheNvrtcFile());
  return file.identity;
}

}  // namespace reprise::kernels
