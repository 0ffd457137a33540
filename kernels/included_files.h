// Files that sources include, read once.

#ifndef REPRISE_KERNELS_INCLUDED_FILES_H_
#define REPRISE_KERNELS_INCLUDED_FILES_H_

#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "cache/signature.h"
#include "engine/base/mutex.h"
#include "kernels/include_directives.h"

namespace reprise::kernels {

// Remembers what is in files, and looks at a file again when its size, place or
// time of change is another. Files that changed in the last moments are always
// read again, as they may change again within one tick of the clock.
// Thread-safe; reads under no lock. A file that is known costs a stat.
class IncludedFiles {
 public:
  struct File {
    cache::Signature content;
    IncludeDirectives directives;
    bool readable = true;
  };

  // Null if there is no regular file at `path`.
  std::shared_ptr<const File> Find(const std::string& path)
      REPRISE_EXCLUDES(mutex_);

 private:
  struct Known {
    struct stat info;
    std::shared_ptr<const File> file;
  };

  base::Mutex mutex_;
  std::unordered_map<std::string, Known> known_ REPRISE_GUARDED_BY(mutex_);
  size_t text_bytes_ REPRISE_GUARDED_BY(mutex_) = 0;  // of what is known
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_INCLUDED_FILES_H_
