// The names of files that macros may make.

#ifndef REPRISE_KERNELS_INCLUDE_MACROS_H_
#define REPRISE_KERNELS_INCLUDE_MACROS_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/include_directives.h"

namespace reprise::kernels {

// Every definition that a macro has anywhere, as conditions are not heeded. The
// definitions must outlive it. Thread-compatible.
class IncludeMacros {
 public:
  using Definition = IncludeDirectives::Definition;

  void Add(const Definition& definition);

  // All names that `#include computed` may come to; nothing if that cannot be
  // told: a macro is opaque or not defined here, or there are too many ways.
  std::optional<std::vector<std::string>> Expand(
      std::string_view computed) const;

 private:
  using Texts = std::vector<std::string>;

  // False if it cannot be told.
  bool ExpandText(std::string_view text, int depth, Texts& expanded) const;
  bool ExpandIdentifier(std::string_view identifier, int depth,
                        Texts& expanded) const;

  std::unordered_map<std::string_view, std::vector<const Definition*>> macros_;
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_INCLUDE_MACROS_H_
