// What the compiler made.

#ifndef REPRISE_KERNELS_COMPILED_CODE_H_
#define REPRISE_KERNELS_COMPILED_CODE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace reprise::kernels {

enum class CodeFormat : uint8_t { kCubin, kPtx };

// Thread-compatible value.
struct CompiledCode {
  CodeFormat format = CodeFormat::kCubin;
  // What NVRTC was asked for: "sm_90", or "compute_121" for PTX.
  std::string architecture;
  // For cuLibraryLoadData; PTX ends in a zero.
  std::vector<char> image;
  // The name in the image of each of KernelSource::name_expressions.
  std::map<std::string, std::string> lowered_names;
  // Warnings; empty if there are none.
  std::string log;

  bool operator==(const CompiledCode&) const = default;

  // The memory that it holds, about.
  size_t size_bytes() const;

  // As bytes for a cache of this machine's, and back. Nothing if `bytes` are
  // not what Serialize made.
  std::vector<char> Serialize() const;
  static std::optional<CompiledCode> Parse(std::span<const char> bytes);
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_COMPILED_CODE_H_
