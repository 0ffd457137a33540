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

// Tables of the mathematical functions, and strings: what nobody writes may be
// there twice.
bool IsConstant(std::string_view symbol) {
  return symbol.starts_with("__cudart_") || symbol.starts_with("$str");
}

bool HasVariablesInPtx(std::string_view ptx) {
  constexpr std::string_view kLinkings[] = {".visible ", ".weak ", ".extern ",
                                            ".common "};
  while (!ptx.empty()) {
    const size_t end = ptx.find('\n');
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end == std::string_view::npos ? ptx.size() : end + 1);
    for (const std::string_view linking : kLinkings) {
      if (line.starts_with(linking)) line.remove_prefix(linking.size());
    }
    if (!line.starts_with(".global ") && !line.starts_with(".const ")) continue;
    // ".global .align 4 .b8 name[24] = ...": the first word without a dot, and
    // no number.
    line = line.substr(0, line.find_first_of("[;="));
    line.remove_prefix(line.find_last_of(' ') + 1);
    if (!IsConstant(line)) return true;
  }
  return false;
}

// Sections and symbols of machine code; reads nothing outside it.
class Elf {
 public:
  explicit Elf(std::string_view bytes) : bytes_(bytes) {
    valid_ = Read(0, header_) &&
             std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
             header_.e_shentsize == sizeof(Elf64_Shdr) &&
             Section(header_.e_shstrndx, names_);
  }

  bool valid() const { return valid_; }
  size_t sections() const { return header_.e_shnum; }
  bool Section(size_t i, Elf64_Shdr& to) const {
    return i < header_.e_shnum && Read(header_.e_shoff + i * sizeof to, to);
  }
  std::string_view Name(const Elf64_Shdr& section) const {
    return Text(names_, section.sh_name);
  }
  template <typename T>
  bool Read(size_t at, T& to) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof to) return false;
    std::memcpy(&to, bytes_.data() + at, sizeof to);
    return true;
  }
  // Empty if there is none.
  std::string_view Text(const Elf64_Shdr& strings, size_t at) const {
    if (strings.sh_offset > bytes_.size() ||
        strings.sh_size > bytes_.size() - strings.sh_offset ||
        at >= strings.sh_size) {
      return {};
    }
    const std::string_view text =
        bytes_.substr(strings.sh_offset + at, strings.sh_size - at);
    return text.substr(0, text.find('\0'));
  }

 private:
  const std::string_view bytes_;
  Elf64_Ehdr header_{};
  Elf64_Shdr names_{};
  bool valid_ = false;
};

// By the symbols of the sections that variables lie in; true where it cannot be
// told.
bool HasVariablesInElf(std::string_view bytes) {
  const Elf elf(bytes);
  if (!elf.valid()) return true;
  const auto holds_variables = [&elf](size_t i) {
    Elf64_Shdr section;
    if (!elf.Section(i, section)) return false;
    const std::string_view name = elf.Name(section);
    return name.starts_with(".nv.global") || name.starts_with(".nv.constant3");
  };
  for (size_t i = 0; i < elf.sections(); ++i) {
    Elf64_Shdr table;
    Elf64_Shdr strings;
    if (!elf.Section(i, table)) return true;
    if (table.sh_type != SHT_SYMTAB) continue;
    if (!elf.Section(table.sh_link, strings)) return true;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size;
         at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!elf.Read(table.sh_offset + at, symbol)) return true;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT &&
          holds_variables(symbol.st_shndx) &&
          !IsConstant(elf.Text(strings, symbol.st_name))) {
        return true;
      }
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
  return code.format == CodeFormat::kPtx ? HasVariablesInPtx(image)
                                         : HasVariablesInElf(image);
}

}  // namespace reprise::kernels
