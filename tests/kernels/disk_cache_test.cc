// The disk cache against damage, strangers, other writers and full disks.

#include "kernels/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/kernels/temporary_folder.h"

namespace reprise::kernels {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

constexpr size_t kHeaderBytes = 56;
constexpr uint64_t kNobody = 65534;

std::vector<char> Bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

cache::Signature Key(uint64_t i) {
  return {i * 0x9e3779b97f4a7c15, i * 0xc2b2ae3d27d4eb4f};
}

std::unique_ptr<DiskCache> OpenOrDie(const std::string& directory,
                                     uint64_t budget_bytes = 1 << 20) {
  auto opened =
      DiskCache::Open({.directory = directory, .budget_bytes = budget_bytes});
  if (!opened) {
    ADD_FAILURE() << opened.error().message();
    std::abort();
  }
  return *std::move(opened);
}

std::string WhyRefused(const std::string& directory) {
  const auto opened = DiskCache::Open({.directory = directory});
  if (opened) return "";
  EXPECT_EQ(opened.error().code(), base::Code::kUnavailable);
  EXPECT_EQ(opened.error().message().find('\n'), std::string::npos);
  return opened.error().message();
}

// Used long ago: the larger `rank`, the longer.
void SetAge(const std::string& path, int rank) {
  const timespec used{1'000'000'000 - rank, 0};
  const timespec times[] = {used, used};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

uint64_t TotalBytes(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& item : fs::directory_iterator(directory)) {
    bytes += item.file_size();
  }
  return bytes;
}

// Runs `check` in a process of its own; true if it returns true there.
template <typename Check>
bool InChild(const Check& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class DiskCacheTest : public ::testing::Test {
 protected:
  std::string PathOf(uint64_t i) const { return folder_ / Key(i).ToHex(); }

  TemporaryFolder folder_;
};

TEST_F(DiskCacheTest, FindsWhatWasStoredAlsoWhenOpenedAgain) {
  std::vector<char> large(300'000);
  std::mt19937 random(1);
  for (char& byte : large) byte = static_cast<char>(random());
  {
    const auto cache = OpenOrDie(folder_.path());
    EXPECT_EQ(cache->Lookup(Key(1)), std::nullopt);
    cache->Store(Key(1), Bytes("one"));
    cache->Store(Key(2), large);
    cache->Store(Key(3), {});
    EXPECT_EQ(cache->Lookup(Key(1)), Bytes("one"));
    cache->Store(Key(1), Bytes("another"));
    EXPECT_EQ(cache->stats().failed_stores, 0);
  }
  const auto cache = OpenOrDie(folder_.path());
  EXPECT_EQ(cache->Lookup(Key(1)), Bytes("another"));
  EXPECT_EQ(cache->Lookup(Key(2)), large);
  EXPECT_EQ(cache->Lookup(Key(3)), std::vector<char>());
  cache->Erase(Key(2));
  EXPECT_EQ(cache->Lookup(Key(2)), std::nullopt);
  EXPECT_EQ(cache->stats().hits, 3);
  EXPECT_EQ(cache->stats().misses, 1);
}

// Every byte of an entry, header and value, damaged in turn.
TEST_F(DiskCacheTest, DamagedEntryIsAMissAndIsRemoved) {
  const auto cache = OpenOrDie(folder_.path());
  cache->Store(Key(1), Bytes("some value"));
  const std::string good = folder_.Read(Key(1).ToHex());
  ASSERT_EQ(good.size(), kHeaderBytes + 10);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    folder_.Write(Key(1).ToHex(), bad);
    EXPECT_EQ(cache->Lookup(Key(1)), std::nullopt) << "byte " << i;
    EXPECT_FALSE(fs::exists(PathOf(1))) << "byte " << i;
  }
  cache->Store(Key(1), Bytes("some value"));
  EXPECT_EQ(cache->Lookup(Key(1)), Bytes("some value"));
}

TEST_F(DiskCacheTest, EntryOfAnotherLengthIsAMissAndIsRemoved) {
  const auto cache = OpenOrDie(folder_.path());
  cache->Store(Key(1), Bytes("some value"));
  const std::string good = folder_.Read(Key(1).ToHex());
  for (size_t size = 0; size < good.size(); ++size) {
    folder_.Write(Key(1).ToHex(), good.substr(0, size));
    EXPECT_EQ(cache->Lookup(Key(1)), std::nullopt) << size << " bytes";
    EXPECT_FALSE(fs::exists(PathOf(1))) << size << " bytes";
  }
  folder_.Write(Key(1).ToHex(), good + "x");
  EXPECT_EQ(cache->Lookup(Key(1)), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf(1)));
}

// The version is the number behind the magic.
TEST_F(DiskCacheTest, EntryOfAnotherVersionIsAMissAndIsRemoved) {
  const auto cache = OpenOrDie(folder_.path());
  cache->Store(Key(1), Bytes("some value"));
  std::string entry = folder_.Read(Key(1).ToHex());
  --entry[8];
  folder_.Write(Key(1).ToHex(), entry);
  EXPECT_EQ(cache->Lookup(Key(1)), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf(1)));
}

TEST_F(DiskCacheTest, EntryOfAnotherKeyIsAMissAndIsRemoved) {
  const auto cache = OpenOrDie(folder_.path());
  cache->Store(Key(1), Bytes("some value"));
  fs::rename(PathOf(1), PathOf(2));
  EXPECT_EQ(cache->Lookup(Key(2)), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf(2)));
}

TEST_F(DiskCacheTest, WhatIsNoFileOfOursIsNotFollowedAndIsRemoved) {
  const auto cache = OpenOrDie(folder_.path());
  cache->Store(Key(1), Bytes("some value"));
  fs::rename(PathOf(1), folder_ / "elsewhere");
  fs::create_symlink("elsewhere", PathOf(1));
  EXPECT_EQ(cache->Lookup(Key(1)), std::nullopt);
  EXPECT_FALSE(fs::is_symlink(PathOf(1)));
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere"));

  ASSERT_EQ(mkfifo(PathOf(2).c_str(), 0600), 0);  // a reader would wait
  EXPECT_EQ(cache->Lookup(Key(2)), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf(2)));

  fs::create_directory(PathOf(3));
  EXPECT_EQ(cache->Lookup(Key(3)), std::nullopt);

  cache->Store(Key(4), Bytes("some value"));
  ASSERT_EQ(chmod(PathOf(4).c_str(), 0622), 0);
  EXPECT_EQ(cache->Lookup(Key(4)), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf(4)));
}

TEST_F(DiskCacheTest, MakesFoldersForTheirOwnerAlone) {
  const std::string directory = folder_ / "new/cache";
  const auto cache = OpenOrDie(directory);
  cache->Store(Key(1), Bytes("one"));
  struct stat info;
  for (const std::string& path : {folder_ / "new", directory}) {
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700) << path;
  }
  ASSERT_EQ(stat((directory + "/" + Key(1).ToHex()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST_F(DiskCacheTest, RefusesFoldersThatAreNotSafe) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  EXPECT_EQ(WhyRefused(folder_.path()), "");
  ASSERT_EQ(chmod(folder_.path().c_str(), 0720), 0);
  EXPECT_THAT(WhyRefused(folder_.path()), HasSubstr("others may write"));
  ASSERT_EQ(chmod(folder_.path().c_str(), 0702), 0);
  EXPECT_THAT(WhyRefused(folder_.path()), HasSubstr("others may write"));
  ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);

  std::string strange = "/";
  if (geteuid() == 0) {
    strange = folder_ / "strange";
    fs::create_directory(strange);
    ASSERT_EQ(chown(strange.c_str(), kNobody, kNobody), 0);
  }
  EXPECT_THAT(WhyRefused(strange), HasSubstr("somebody else"));

  folder_.Write("file", "");
  EXPECT_THAT(WhyRefused(folder_ / "file"), HasSubstr("directory"));
  EXPECT_THAT(WhyRefused(folder_ / "file/cache"), HasSubstr("cannot be made"));
  EXPECT_THAT(WhyRefused(""), HasSubstr("no such folder"));
}

// As another user where this one could write all the same.
TEST_F(DiskCacheTest, ReadOnlyFolderStillServesItsEntries) {
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder_.path().c_str(), kNobody, kNobody), 0);
  }
  EXPECT_TRUE(InChild([this] {
    if (geteuid() == 0 && setuid(kNobody) != 0) return false;
    const auto cache = OpenOrDie(folder_.path());
    cache->Store(Key(1), Bytes("one"));
    if (chmod(folder_.path().c_str(), 0500) != 0) return false;
    cache->Store(Key(2), Bytes("two"));
    const bool right = cache->Lookup(Key(1)) == Bytes("one") &&
                       cache->Lookup(Key(2)) == std::nullopt &&
                       cache->stats().failed_stores == 1;
    return chmod(folder_.path().c_str(), 0700) == 0 && right;
  }));
}

// A limit on the size of files stands for the full disk: a write falls short,
// then fails.
TEST_F(DiskCacheTest, FullDiskLosesOnlyWhatWasToBeStored) {
  EXPECT_TRUE(InChild([this] {
    const auto cache = OpenOrDie(folder_.path());
    cache->Store(Key(1), Bytes("one"));
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    cache->Store(Key(1), std::vector<char>(10'000));
    cache->Store(Key(2), std::vector<char>(10'000));
    cache->Store(Key(3), Bytes("three"));
    return cache->stats().failed_stores == 2 &&
           cache->Lookup(Key(1)) == Bytes("one") &&
           cache->Lookup(Key(2)) == std::nullopt &&
           cache->Lookup(Key(3)) == Bytes("three");
  }));
  EXPECT_EQ(TotalBytes(folder_.path()), 2 * kHeaderBytes + 3 + 5);
}

TEST_F(DiskCacheTest, KeepsWithinItsBudgetAndWhatWasUsedLast) {
  constexpr size_t kEntryBytes = 1000;
  const std::vector<char> value(kEntryBytes - kHeaderBytes, 'v');
  const auto cache = OpenOrDie(folder_.path(), 10 * kEntryBytes);
  for (int i = 0; i < 10; ++i) {
    cache->Store(Key(i), value);
    SetAge(PathOf(i), 10 - i);  // entry 0 was used longest ago
  }
  EXPECT_EQ(cache->stats().removed, 0);
  EXPECT_NE(cache->Lookup(Key(0)), std::nullopt);
  cache->Store(Key(10), value);
  EXPECT_LE(TotalBytes(folder_.path()), 10 * kEntryBytes);
  for (const int kept : {0, 5, 9, 10}) EXPECT_TRUE(fs::exists(PathOf(kept)));
  for (const int gone : {1, 2}) EXPECT_FALSE(fs::exists(PathOf(gone)));
  for (int i = 11; i < 100; ++i) {
    cache->Store(Key(i), value);
    EXPECT_LE(TotalBytes(folder_.path()), 10 * kEntryBytes);
  }
  EXPECT_EQ(cache->stats().failed_stores, 0);
}

TEST_F(DiskCacheTest, BudgetCountsWhatOthersLeft) {
  const std::vector<char> value(1000, 'v');
  const auto first = OpenOrDie(folder_.path());
  for (int i = 0; i < 20; ++i) first->Store(Key(i), value);
  const auto second = OpenOrDie(folder_.path(), 10'000);
  second->Store(Key(20), value);
  EXPECT_LE(TotalBytes(folder_.path()), 10'000);
}

TEST_F(DiskCacheTest, ValueBeyondTheBudgetIsNotKept) {
  const auto cache = OpenOrDie(folder_.path(), 1000);
  cache->Store(Key(1), Bytes("one"));
  cache->Store(Key(2), std::vector<char>(1000));
  EXPECT_EQ(cache->Lookup(Key(1)), Bytes("one"));
  EXPECT_EQ(cache->Lookup(Key(2)), std::nullopt);
}

TEST_F(DiskCacheTest, SweepsOldLeftoversAndNothingElse) {
  const std::string old_one = "unfinished-" + Key(1).ToHex();
  const std::string new_one = "unfinished-" + Key(2).ToHex();
  folder_.Write(old_one, "half an entry");
  SetAge(folder_ / old_one, 0);
  folder_.Write(new_one, "a writer is at it");
  folder_.Write("notes.txt", std::string(5000, 'n'));
  SetAge(folder_ / "notes.txt", 0);
  const auto cache = OpenOrDie(folder_.path(), 1000);
  for (int i = 0; i < 50; ++i) cache->Store(Key(i), Bytes("value"));
  EXPECT_GT(cache->stats().removed, 1);
  EXPECT_FALSE(fs::exists(folder_ / old_one));
  EXPECT_TRUE(fs::exists(folder_ / new_one));
  EXPECT_TRUE(fs::exists(folder_ / "notes.txt"));
}

// A value says which key it belongs to, and is long enough to be torn.
std::vector<char> ValueOf(uint64_t i, uint64_t variant) {
  return std::vector<char>(2000 + 3000 * variant,
                           static_cast<char>('a' + i + variant));
}

// True if all that it finds is what somebody has stored under the key.
bool StoreAndFind(DiskCache& cache, unsigned seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const uint64_t i = random() % 8;
    if (random() % 2 == 0) {
      cache.Store(Key(i), ValueOf(i, random() % 2));
      continue;
    }
    const auto found = cache.Lookup(Key(i));
    if (found && *found != ValueOf(i, 0) && *found != ValueOf(i, 1)) {
      return false;
    }
  }
  return cache.stats().failed_stores == 0 && cache.stats().hits > 0;
}

// The budget holds about half of what they store, so they also remove.
TEST_F(DiskCacheTest, ProcessesShareAFolder) {
  constexpr uint64_t kBudgetBytes = 16'000;
  std::vector<pid_t> children;
  for (unsigned seed = 0; seed < 3; ++seed) {
    children.push_back(fork());
    if (children.back() == 0) {
      const auto cache = OpenOrDie(folder_.path(), kBudgetBytes);
      _exit(StoreAndFind(*cache, seed) ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (const auto& item : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(item.path().filename().native().size(), 32) << item.path();
  }
  const auto cache = OpenOrDie(folder_.path(), kBudgetBytes);
  cache->Store(Key(9), Bytes("nine"));
  EXPECT_LE(TotalBytes(folder_.path()), kBudgetBytes);
}

TEST_F(DiskCacheTest, ThreadsShareACache) {
  const auto cache = OpenOrDie(folder_.path(), 16'000);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back(
        [&, seed] { right += StoreAndFind(*cache, seed) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

// Sets variables and puts them back.
class DefaultCacheDirectoryTest : public ::testing::Test {
 protected:
  DefaultCacheDirectoryTest() {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.push_back(value ? std::optional<std::string>(value)
                              : std::nullopt);
      unsetenv(name);
    }
  }
  ~DefaultCacheDirectoryTest() override {
    for (size_t i = 0; i < before_.size(); ++i) {
      unsetenv(kNames[i]);
      if (before_[i]) setenv(kNames[i], before_[i]->c_str(), 1);
    }
  }

  static constexpr const char* kNames[] = {"REPRISE_CACHE_DIR",
                                           "XDG_CACHE_HOME", "HOME"};

 private:
  std::vector<std::optional<std::string>> before_;
};

TEST_F(DefaultCacheDirectoryTest, TakesTheFirstThatIsSet) {
  EXPECT_EQ(DefaultCacheDirectory(), "");
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(DefaultCacheDirectory(), "/home/x/.cache/reprise");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  EXPECT_EQ(DefaultCacheDirectory(), "/home/x/.cache/reprise");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(DefaultCacheDirectory(), "/caches/reprise");
  setenv("REPRISE_CACHE_DIR", "", 1);
  EXPECT_EQ(DefaultCacheDirectory(), "/caches/reprise");
  setenv("REPRISE_CACHE_DIR", "/mine", 1);
  EXPECT_EQ(DefaultCacheDirectory(), "/mine");
}

}  // namespace
}  // namespace reprise::kernels
