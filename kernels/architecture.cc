#include "kernels/architecture.h"

#include <charconv>
#include <system_error>

namespace reprise::kernels {

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

base::Status CheckArchitecture(const std::string& architecture) {
  if (ArchitectureNumber(architecture)) return {};
  return base::Fail(base::Code::kInvalidArgument,
                    "'" + architecture +
                        "' is no architecture; give one "
                        "like sm_90 or compute_90");
}

}  // namespace reprise::kernels
