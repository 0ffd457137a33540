// The files that a source may include.

#ifndef REPRISE_KERNELS_DEPENDENCIES_H_
#define REPRISE_KERNELS_DEPENDENCIES_H_

#include <string>
#include <string_view>
#include <vector>

#include "cache/signature.h"
#include "kernels/kernel_source.h"

namespace reprise::kernels {

// NVRTC does not tell which files it read, so the texts are searched for what
// they may include, macros and conditions unheeded: every file of such a name
// in the including file's folder or an include path counts, read or not. What
// is not found is not counted, so a file that appears changes the list.
// Thread-compatible value.
struct Dependencies {
  struct File {
    std::string path;  // absolute
    cache::Signature content;

    auto operator<=>(const File&) const = default;
  };

  std::vector<File> files;  // by path
  // Something cannot be told from the texts: an include whose name a macro
  // makes, __TIME__. The same source may then become something else tomorrow.
  bool complete = true;

  bool operator==(const Dependencies&) const = default;
};

// Reads all those files: some 10 us each, and nothing where no folder has any.
Dependencies FindDependencies(const KernelSource& source);

// What one text may include; for tests. Pure function.
struct IncludedNames {
  std::vector<std::string> names;
  bool complete = true;
};
IncludedNames FindIncludedNames(std::string_view text);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_DEPENDENCIES_H_
