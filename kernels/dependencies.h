// The files that a source may include.

#ifndef REPRISE_KERNELS_DEPENDENCIES_H_
#define REPRISE_KERNELS_DEPENDENCIES_H_

#include <string>
#include <vector>

#include "cache/signature.h"
#include "kernels/included_files.h"
#include "kernels/kernel_source.h"

namespace reprise::kernels {

// NVRTC does not tell which files it read, so the texts are searched for what
// they may include, conditions unheeded: every file of such a name in the
// including file's folder or an include path counts, read or not. What is not
// found is not counted, so a file that appears changes the list.
// Thread-compatible value.
struct Dependencies {
  struct File {
    std::string path;  // absolute
    cache::Signature content;

    auto operator<=>(const File&) const = default;
  };

  std::vector<File> files = {};  // by path
  // False if the texts do not tell (IncludeDirectives, IncludeMacros): the same
  // source may become something else tomorrow.
  bool complete = true;

  bool operator==(const Dependencies&) const = default;
};

// Reads all those files that `files` does not know yet, some 40 us each. A
// source that includes nothing costs nothing but its own text.
Dependencies FindDependencies(const KernelSource& source, IncludedFiles& files);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_DEPENDENCIES_H_
