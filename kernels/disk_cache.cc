#include "kernels/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/hash_bytes.h"

namespace reprise::kernels {
namespace {

using base::Code;
using base::Fail;

constexpr char kMagic[8] = {'r', 'e', 'p', 'r', 'i', 's', 'e', '\n'};
constexpr uint64_t kVersion = 1;
constexpr std::string_view kUnfinished = "unfinished-";
// A writer that has not renamed its file after so long has crashed.
constexpr int64_t kUnfinishedSeconds = 3600;

// The beginning of an entry; its value follows.
struct Header {
  char magic[8] = {};
  uint64_t version;
  uint64_t key_hi;
  uint64_t key_lo;
  uint64_t value_bytes;
  uint64_t value_hash_hi;
  uint64_t value_hash_lo;

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 56, "no padding: it is written as it is");

Header HeaderOf(const cache::Signature& key, std::span<const char> value) {
  const cache::Signature hash = HashBytes(value);
  Header header{.version = kVersion,
                .key_hi = key.hi,
                .key_lo = key.lo,
                .value_bytes = value.size(),
                .value_hash_hi = hash.hi,
                .value_hash_lo = hash.lo};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  return header;
}

// That of an entry of `key` in a file of so many bytes, its value unseen.
bool Fits(const Header& header, const cache::Signature& key,
          uint64_t file_bytes) {
  return std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 &&
         header.version == kVersion && header.key_hi == key.hi &&
         header.key_lo == key.lo &&
         header.value_bytes == file_bytes - sizeof(header);
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

template <typename Call>
auto Retry(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Only this user can have written it.
bool IsOurs(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// ToHex of some key.
bool IsEntryName(std::string_view name) {
  return name.size() == 32 &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// False with errno set.
bool MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (mkdir(path.substr(0, end).c_str(), 0700) != 0 && errno != EEXIST) {
      // It may be there for all that, below what cannot be written.
      struct stat info;
      const int error = errno;
      if (stat(path.substr(0, end).c_str(), &info) != 0) {
        errno = error;
        return false;
      }
    }
    if (end == std::string::npos) return true;
  }
}

bool WriteAll(int file, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        Retry([&] { return write(file, bytes.data(), bytes.size()); });
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// False if the file ends before.
bool ReadAll(int file, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got =
        Retry([&] { return read(file, bytes.data(), bytes.size()); });
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

// A name that no other writer has.
std::string UnfinishedName() {
  uint64_t random[2];
  if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
    return {};
  }
  return std::string(kUnfinished) +
         cache::Signature{random[0], random[1]}.ToHex();
}

}  // namespace

std::string DefaultCacheDirectory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = variable("REPRISE_CACHE_DIR"); !own.empty()) return own;
  if (std::string caches = variable("XDG_CACHE_HOME");
      caches.starts_with('/')) {
    return caches + "/reprise";
  }
  if (std::string home = variable("HOME"); !home.empty()) {
    return home + "/.cache/reprise";
  }
  return {};
}

base::Result<std::unique_ptr<DiskCache>> DiskCache::Open(
    DiskCacheOptions options) {
  const std::string& path = options.directory;
  const auto refuse = [&path](const std::string& why) {
    return Fail(Code::kUnavailable,
                "no cache in '" + path + "': " + why +
                    "; let REPRISE_CACHE_DIR name a folder of your own");
  };
  const auto reason = [] { return std::generic_category().message(errno); };
  if (path.empty()) return refuse("there is no such folder");
  if (!MakeDirectories(path)) return refuse("it cannot be made, " + reason());
  Descriptor folder(Retry(
      [&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  struct stat info;
  if (folder.get() < 0 || fstat(folder.get(), &info) != 0) {
    return refuse("it cannot be opened, " + reason());
  }
  if (info.st_uid != geteuid()) return refuse("it belongs to somebody else");
  if (!IsOurs(info)) return refuse("others may write to it");
  return std::unique_ptr<DiskCache>(
      new DiskCache(std::move(options), folder.Release()));
}

DiskCache::DiskCache(DiskCacheOptions options, int folder)
    : options_(std::move(options)), folder_(folder) {}

DiskCache::~DiskCache() { close(folder_); }

std::optional<std::vector<char>> DiskCache::Lookup(
    const cache::Signature& key) {
  const std::string name = key.ToHex();
  // Anything may lie under the name: neither follow it nor wait for it.
  const Descriptor file(Retry([&] {
    return openat(folder_, name.c_str(),
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  }));
  const auto miss = [this] {
    misses_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  };
  const auto remove = [&, this] {
    Remove(name.c_str());
    return miss();
  };
  if (file.get() < 0) return errno == ELOOP ? remove() : miss();
  struct stat info;
  if (fstat(file.get(), &info) != 0) return miss();
  if (!S_ISREG(info.st_mode) || !IsOurs(info)) return remove();
  Header header;
  if (!ReadAll(file.get(),
               {reinterpret_cast<char*>(&header), sizeof(header)}) ||
      !Fits(header, key, static_cast<uint64_t>(info.st_size))) {
    return remove();
  }
  std::vector<char> value(header.value_bytes);
  if (!ReadAll(file.get(), value) || header != HeaderOf(key, value)) {
    return remove();
  }
  // Whatever the file system makes of access times, the time of writing says
  // here when an entry was last of use.
  futimens(file.get(), nullptr);
  hits_.fetch_add(1, std::memory_order_relaxed);
  return value;
}

void DiskCache::Store(const cache::Signature& key,
                      std::span<const char> value) {
  const uint64_t size = sizeof(Header) + value.size();
  if (size > options_.budget_bytes || !Write(key, value)) {
    failed_stores_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto taken = static_cast<int64_t>(size);
  if (headroom_bytes_.fetch_sub(taken, std::memory_order_relaxed) >= taken) {
    return;
  }
  // If another thread is at it, the next call will see to what this one wrote.
  if (!trim_mutex_.TryLock()) return;
  Trim();
  trim_mutex_.Unlock();
}

void DiskCache::Erase(const cache::Signature& key) {
  Remove(key.ToHex().c_str());
}

bool DiskCache::Write(const cache::Signature& key,
                      std::span<const char> value) {
  const std::string unfinished = UnfinishedName();
  if (unfinished.empty()) return false;
  const Descriptor file(Retry([&] {
    return openat(folder_, unfinished.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }));
  if (file.get() < 0) return false;
  const Header header = HeaderOf(key, value);
  if (WriteAll(file.get(),
               {reinterpret_cast<const char*>(&header), sizeof(header)}) &&
      WriteAll(file.get(), value) &&
      renameat(folder_, unfinished.c_str(), folder_, key.ToHex().c_str()) ==
          0) {
    return true;
  }
  unlinkat(folder_, unfinished.c_str(), 0);
  return false;
}

void DiskCache::Trim() {
  struct Entry {
    timespec used;
    std::string name;
    uint64_t size_bytes;
  };
  Descriptor listed(openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const listing = listed.get() < 0 ? nullptr : fdopendir(listed.get());
  if (listing == nullptr) return;
  listed.Release();  // the listing's now
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::vector<Entry> entries;
  uint64_t total_bytes = 0;
  while (const dirent* item = readdir(listing)) {
    const std::string_view name = item->d_name;
    const bool unfinished = name.starts_with(kUnfinished);
    if (!unfinished && !IsEntryName(name)) continue;
    struct stat info;
    if (fstatat(folder_, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (unfinished) {
      if (now.tv_sec - info.st_mtim.tv_sec > kUnfinishedSeconds) {
        Remove(item->d_name);
      }
      continue;
    }
    const auto size = static_cast<uint64_t>(info.st_size);
    entries.push_back({info.st_mtim, std::string(name), size});
    total_bytes += size;
  }
  closedir(listing);
  if (total_bytes > options_.budget_bytes) {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) {
                return std::pair(a.used.tv_sec, a.used.tv_nsec) <
                       std::pair(b.used.tv_sec, b.used.tv_nsec);
              });
    // Some room besides, so that not every Store comes here again.
    const uint64_t target_bytes =
        options_.budget_bytes - options_.budget_bytes / 8;
    for (const Entry& entry : entries) {
      if (total_bytes <= target_bytes) break;
      Remove(entry.name.c_str());
      total_bytes -= entry.size_bytes;
    }
  }
  headroom_bytes_.store(
      static_cast<int64_t>(std::min(options_.budget_bytes - total_bytes,
                                    options_.budget_bytes / 16)),
      std::memory_order_relaxed);
}

void DiskCache::Remove(const char* name) {
  if (unlinkat(folder_, name, 0) == 0) {
    removed_.fetch_add(1, std::memory_order_relaxed);
  }
}

DiskCache::Stats DiskCache::stats() const {
  return {.hits = hits_.load(std::memory_order_relaxed),
          .misses = misses_.load(std::memory_order_relaxed),
          .removed = removed_.load(std::memory_order_relaxed),
          .failed_stores = failed_stores_.load(std::memory_order_relaxed)};
}

}  // namespace reprise::kernels
