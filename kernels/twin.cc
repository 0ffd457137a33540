#include "kernels/twin.h"

#include <elf.h>

#include <cstring>
#include <string_view>
#include <utility>

namespace reprise::kernels {
namespace {

constexpr std::string_view kBefore = R"(
#undef __global__
#undef __launch_bounds__
#define __global__ __device__
#define __launch_bounds__(...)
)";

constexpr std::string_view kBehind = R"(
namespace reprise_twin {
template <unsigned... kIndices>
struct Indices {};
template <unsigned kCount, unsigned... kIndices>
struct Count : Count<kCount - 1, kCount - 1, kIndices...> {};
template <unsigned... kIndices>
struct Count<0, kIndices...> {
  using Type = Indices<kIndices...>;
};

// Where parameter `index` lies.
template <typename... P>
__device__ constexpr unsigned long long Offset(unsigned index) {
  const unsigned long long sizes[] = {sizeof(P)..., 0};
  const unsigned long long alignments[] = {alignof(P)..., 1};
  unsigned long long offset = 0;
  for (unsigned i = 0;; ++i) {
    offset = (offset + alignments[i] - 1) / alignments[i] * alignments[i];
    if (i == index) return offset;
    offset += sizes[i];
  }
}

template <typename... P, unsigned... kIndices>
__device__ __forceinline__ void Call(void (*kernel)(P...),
                                     const unsigned char* arguments,
                                     Indices<kIndices...>) {
  kernel(*reinterpret_cast<const P*>(arguments + Offset<P...>(kIndices))...);
}
template <typename... P>
__device__ __forceinline__ void Call(void (*kernel)(P...),
                                     const unsigned char* arguments) {
  Call(kernel, arguments, typename Count<sizeof...(P)>::Type{});
}

template <auto kKernel, int kMaxThreads>
__attribute__((global)) void __attribute__((launch_bounds(kMaxThreads)))
Twin(const unsigned char* arguments) {
  Call(kKernel, arguments);
}
}  // namespace reprise_twin
)";

bool HasVariables(std::string_view ptx) {
  constexpr std::string_view kLinkings[] = {".visible ", ".weak ", ".extern ",
                                            ".common "};
  while (!ptx.empty()) {
    const size_t end = ptx.find('\n');
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end == std::string_view::npos ? ptx.size() : end + 1);
    for (const std::string_view linking : kLinkings) {
      if (line.starts_with(linking)) line.remove_prefix(linking.size());
    }
    if (line.starts_with(".global ") || line.starts_with(".const ")) {
      return true;
    }
  }
  return false;
}

// By the names of the sections that variables lie in; true where it cannot be
// told.
bool HasVariablesInElf(std::string_view elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof header) return true;
  std::memcpy(&header, elf.data(), sizeof header);
  const auto section = [&](size_t i, Elf64_Shdr& to) {
    const size_t at = header.e_shoff + i * sizeof to;
    if (at > elf.size() || elf.size() - at < sizeof to) return false;
    std::memcpy(&to, elf.data() + at, sizeof to);
    return true;
  };
  Elf64_Shdr names;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof names ||
      !section(header.e_shstrndx, names) || names.sh_offset > elf.size() ||
      names.sh_size > elf.size() - names.sh_offset) {
    return true;
  }
  const std::string_view all = elf.substr(names.sh_offset, names.sh_size);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr one;
    if (!section(i, one) || one.sh_name >= all.size()) return true;
    const std::string_view name = all.substr(one.sh_name);
    if (name.starts_with(".nv.global") || name.starts_with(".nv.constant3")) {
      return true;
    }
  }
  return false;
}

}  // namespace

Twin TwinOf(KernelSource source, const std::string& kernel, int max_threads) {
  Twin twin;
  twin.name =
      "reprise_twin::Twin<" + kernel + ", " + std::to_string(max_threads) + ">";
  twin.source = std::move(source);
  KernelSource& made = twin.source;
  made.headers[made.name] = std::move(made.source);
  made.source = std::string(kBefore) + "#include \"" + made.name + "\"\n" +
                std::string(kBehind);
  // In the same folder, for what the text includes.
  made.name += ".twin.cu";
  made.name_expressions = {twin.name};
  return twin;
}

bool HasVariables(const CompiledCode& code) {
  const std::string_view image(code.image.data(), code.image.size());
  return code.format == CodeFormat::kPtx ? HasVariables(image)
                                         : HasVariablesInElf(image);
}

}  // namespace reprise::kernels
