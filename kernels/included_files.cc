#include "kernels/included_files.h"

#include <ctime>
#include <fstream>
#include <utility>

#include "kernels/hash_bytes.h"

namespace reprise::kernels {
namespace {

// All is forgotten when it comes from more text than this.
constexpr size_t kMostTextBytes = size_t{64} << 20;
// No file system's clock goes by coarser ticks.
constexpr time_t kTickSeconds = 2;

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
         a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

// `info` was read before the text was.
bool MayBeKept(const struct stat& info) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec - info.st_ctim.tv_sec > kTickSeconds;
}

bool ReadText(const std::string& path, std::string& text) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size_bytes = file ? std::streamoff(file.tellg()) : -1;
  if (size_bytes < 0) return false;
  text.resize(static_cast<size_t>(size_bytes));
  file.seekg(0);
  file.read(text.data(), size_bytes);
  return file.good();
}

}  // namespace

std::shared_ptr<const IncludedFiles::File> IncludedFiles::Find(
    const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return nullptr;
  {
    const base::MutexLock lock(mutex_);
    const auto found = known_.find(path);
    if (found != known_.end() && IsSame(found->second.info, info)) {
      return found->second.file;
    }
  }
  const bool keep = MayBeKept(info);
  std::string text;
  auto file = std::make_shared<File>();
  file->readable = ReadText(path, text);
  file->content = HashBytes(text);
  file->directives = FindIncludeDirectives(text);
  if (keep && file->readable) {
    const base::MutexLock lock(mutex_);
    if (text_bytes_ + text.size() > kMostTextBytes) {
      known_.clear();
      text_bytes_ = 0;
    }
    text_bytes_ += text.size();
    known_.insert_or_assign(path, Known{info, file});
  }
  return file;
}

}  // namespace reprise::kernels
