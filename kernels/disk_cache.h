// Bytes by key in a folder, for as long as they are used.

#ifndef REPRISE_KERNELS_DISK_CACHE_H_
#define REPRISE_KERNELS_DISK_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/signature.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace reprise::kernels {

// `$REPRISE_CACHE_DIR`, else `$XDG_CACHE_HOME/reprise`, else
// `$HOME/.cache/reprise`; empty if none is set. Empty variables count as unset,
// as does an XDG_CACHE_HOME that is not absolute.
std::string DefaultCacheDirectory();

struct DiskCacheOptions {
  std::string directory = DefaultCacheDirectory();
  // All entries together. The least recently stored or found go first.
  uint64_t budget_bytes = uint64_t{256} << 20;
};

// One file an entry, named by its key. A file is written aside and renamed, so
// any number of processes may use the folder at once: a reader sees a whole
// entry or none, and of two writers of one key the last one wins. Each looks
// through the folder before it has written a sixteenth of the budget, so the
// entries exceed the budget by less than that a process.
//
// An entry that is damaged, of another version, of another key or that another
// user could have written is a miss, and is removed. Nothing is synced: what a
// crash of the machine cuts short is such an entry. A cache that cannot be
// written (full disk, read-only folder) loses what was to be stored and goes
// on. Files that are not entries are left alone.
//
// Thread-safe, no lock but while the folder is looked through. The folder is
// held open: renamed, it is still this one. Reading an entry of 100 kB that
// lies in the page cache takes some 30 us, storing it some 200 us.
class DiskCache {
 public:
  struct Stats {
    uint64_t hits = 0;
    uint64_t misses = 0;   // entries that were no good included
    uint64_t removed = 0;  // those, and what the budget pushed out
    uint64_t failed_stores = 0;
  };

  // Makes the folder, for its owner alone (0700), if there is none.
  // kUnavailable, in one sentence, if that fails, or if the folder belongs to
  // somebody else or others may write to it: go on without a cache.
  static base::Result<std::unique_ptr<DiskCache>> Open(
      DiskCacheOptions options = {});
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The bytes that were stored last; nothing on a miss.
  std::optional<std::vector<char>> Lookup(const cache::Signature& key);

  // Keeps `value`, unless it is larger than the budget or cannot be written.
  void Store(const cache::Signature& key, std::span<const char> value)
      REPRISE_EXCLUDES(trim_mutex_);

  void Erase(const cache::Signature& key);

  Stats stats() const;
  const std::string& directory() const { return options_.directory; }

 private:
  DiskCache(DiskCacheOptions options, int folder);

  bool Write(const cache::Signature& key, std::span<const char> value);
  // Removes what exceeds the budget, and what crashed writers left.
  void Trim() REPRISE_REQUIRES(trim_mutex_);
  void Remove(const char* name);

  const DiskCacheOptions options_;
  const int folder_;  // owned descriptor
  base::Mutex trim_mutex_;
  // What may be stored before the folder is to be looked through.
  std::atomic<int64_t> headroom_bytes_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> removed_{0};
  std::atomic<uint64_t> failed_stores_{0};
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_DISK_CACHE_H_
