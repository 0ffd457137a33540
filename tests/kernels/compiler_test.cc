// Compilations that are shared, kept, dropped and taken over.

#include "kernels/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/disk_cache.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/kernels/nvrtc_fixture.h"
#include "tests/kernels/temporary_folder.h"

namespace reprise::kernels {
namespace {

using ::testing::HasSubstr;

// Sources that differ by a number.
KernelSource Numbered(int number) {
  return {.source = "extern \"C\" __global__ void kernel_" +
                    std::to_string(number) + "(int* p) { *p = 1; }",
          .architecture = "sm_90"};
}

class CompilerTest : public NvrtcFixture {
 protected:
  static std::shared_ptr<DiskCache> Disk(const TemporaryFolder& folder) {
    auto disk = DiskCache::Open({.directory = folder.path()});
    EXPECT_TRUE(disk) << disk.error().message();
    return *std::move(disk);
  }

  base::ManualTaskRunner tasks_;
};

TEST_F(CompilerTest, CompilesInTheBackground) {
  Compiler compiler(tasks_);
  const auto compilation = compiler.Compile(Numbered(1));
  EXPECT_FALSE(compilation->done());
  EXPECT_EQ(compiler.stats().compiled, 0);
  EXPECT_EQ(tasks_.RunAll(), 1);
  EXPECT_TRUE(compilation->done());
  const auto code = compilation->Wait();
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_TRUE(IsElf((*code)->image));
  EXPECT_TRUE(Mentions((*code)->image, "kernel_1"));
  EXPECT_EQ(*compilation->Wait(), *code);
  EXPECT_EQ(compiler.stats().compiled, 1);
}

TEST_F(CompilerTest, SameSourceSharesTheCompilationUnderWay) {
  Compiler compiler(tasks_);
  const auto first = compiler.Compile(Numbered(1));
  const auto second = compiler.Compile(Numbered(1));
  const auto other = compiler.Compile(Numbered(2));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_EQ(tasks_.RunAll(), 2);
  EXPECT_EQ(compiler.stats().compiled, 2);
  EXPECT_EQ(compiler.stats().shared, 1);
}

TEST_F(CompilerTest, SameSourceLaterIsDoneAtOnce) {
  Compiler compiler(tasks_);
  const auto first = compiler.Compile(Numbered(1))->Wait();
  tasks_.RunAll();
  const auto again = compiler.Compile(Numbered(1));
  EXPECT_TRUE(again->done());
  EXPECT_EQ(tasks_.pending(), 0);
  EXPECT_EQ(*again->Wait(), *first);
  EXPECT_EQ(compiler.stats().compiled, 1);
  EXPECT_EQ(compiler.stats().memory_hits, 1);
}

// So that a task of a runner with one thread may wait.
TEST_F(CompilerTest, WaitTakesOverWhatIsStillQueued) {
  Compiler compiler(tasks_);
  const auto compilation = compiler.Compile(Numbered(1));
  EXPECT_TRUE(compilation->Wait());
  EXPECT_EQ(tasks_.RunAll(), 1);  // finds nothing to do
  EXPECT_EQ(compiler.stats().compiled, 1);
}

TEST_F(CompilerTest, WhatComesNextRunsOnceItIsDone) {
  Compiler compiler(tasks_);
  const auto compilation = compiler.Compile(Numbered(1));
  std::vector<int> ran;
  for (const int number : {1, 2}) {
    compilation->Then([&, number] {
      EXPECT_TRUE(compilation->done());
      EXPECT_TRUE(compilation->Wait());
      ran.push_back(number);
    });
  }
  EXPECT_TRUE(ran.empty());
  tasks_.RunAll();
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
  compilation->Then([&] { ran.push_back(3); });
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST_F(CompilerTest, RunsInPlaceToo) {
  base::InPlaceTaskRunner in_place;
  Compiler compiler(in_place);
  EXPECT_TRUE(compiler.Compile(Numbered(1))->done());
  EXPECT_TRUE(compiler.Compile(Numbered(1))->done());
  EXPECT_EQ(compiler.stats().compiled, 1);
}

TEST_F(CompilerTest, ThreadsShareOneCompilationAKey) {
  base::ThreadTaskRunner runner(2);
  Compiler compiler(runner);
  constexpr int kThreads = 8;
  constexpr int kSources = 3;
  std::vector<std::vector<Compilation::CodePtr>> codes(kThreads);
  std::atomic<int> ready = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int i = 0; i < kSources; ++i) {
        const auto code = compiler.Compile(Numbered((i + t) % kSources));
        codes[t].push_back(*code->Wait());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<Compilation::CodePtr> distinct;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kSources; ++i) {
      const std::string name = "kernel_" + std::to_string((i + t) % kSources);
      EXPECT_TRUE(Mentions(codes[t][i]->image, name));
      distinct.insert(codes[t][i]);
    }
  }
  EXPECT_EQ(distinct.size(), kSources);
  const Compiler::Stats stats = compiler.stats();
  EXPECT_EQ(stats.compiled, kSources);
  EXPECT_EQ(stats.shared + stats.memory_hits, (kThreads - 1) * kSources);
}

TEST_F(CompilerTest, FailuresReachAllWhoWaitAndAreNotKept) {
  Compiler compiler(tasks_);
  KernelSource broken = Numbered(1);
  broken.source = "\n__global__ void f() { undeclared(); }";
  broken.name = "broken.cu";
  for (uint64_t time = 1; time <= 2; ++time) {
    const auto first = compiler.Compile(broken);
    const auto second = compiler.Compile(broken);
    EXPECT_EQ(first, second);
    tasks_.RunAll();
    const auto code = second->Wait();
    ASSERT_FALSE(code);
    EXPECT_EQ(code.error().code(), base::Code::kInvalidArgument);
    EXPECT_THAT(code.error().message(), HasSubstr("broken.cu(2)"));
    EXPECT_EQ(compiler.stats().compiled, time);
  }
}

TEST_F(CompilerTest, WrongRequestsFailWithoutCompiling) {
  Compiler compiler(tasks_);
  KernelSource wrong = Numbered(1);
  wrong.architecture = "hopper";
  const auto compilation = compiler.Compile(wrong);
  EXPECT_TRUE(compilation->done());
  EXPECT_EQ(compilation->Wait().error().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(tasks_.pending(), 0);
}

TEST_F(CompilerTest, DroppedCompilationsFail) {
  auto tasks = std::make_unique<base::ManualTaskRunner>();
  Compiler compiler(*tasks);
  const auto dropped = compiler.Compile(Numbered(1));
  const auto taken_over = compiler.Compile(Numbered(2));
  EXPECT_TRUE(taken_over->Wait());
  bool told = false;
  dropped->Then([&told] { told = true; });
  tasks.reset();
  EXPECT_TRUE(told);
  EXPECT_TRUE(dropped->done());
  const auto code = dropped->Wait();
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code(), base::Code::kFailedPrecondition);
  EXPECT_TRUE(taken_over->Wait());
  EXPECT_EQ(compiler.stats().compiled, 1);
}

TEST_F(CompilerTest, CompilationOutlivesItsCompiler) {
  std::shared_ptr<Compilation> compilation;
  {
    Compiler compiler(tasks_);
    compilation = compiler.Compile(Numbered(1));
  }
  EXPECT_TRUE(compilation->Wait());
  tasks_.RunAll();
}

TEST_F(CompilerTest, MemoryIsBounded) {
  base::InPlaceTaskRunner in_place;
  size_t one_bytes = 0;
  {
    Compiler compiler(in_place);
    one_bytes = (*compiler.Compile(Numbered(1))->Wait())->size_bytes();
  }
  Compiler compiler(in_place, {.memory_bytes = 2 * one_bytes + one_bytes / 2});
  for (const int number : {1, 2, 1, 3}) compiler.Compile(Numbered(number));
  EXPECT_EQ(compiler.stats().compiled, 3);
  compiler.Compile(Numbered(1));
  EXPECT_EQ(compiler.stats().compiled, 3);
  compiler.Compile(Numbered(2));  // the one that was unused for longest
  EXPECT_EQ(compiler.stats().compiled, 4);

  Compiler forgetful(in_place, {.memory_bytes = 0});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(forgetful.Compile(Numbered(1))->Wait());
  }
  EXPECT_EQ(forgetful.stats().compiled, 2);
}

TEST_F(CompilerTest, ResultsOutliveTheProcessOnDisk) {
  const TemporaryFolder folder;
  const KernelSource source{
      .source = "template <int n> __global__ void f(int* p) { int q; *p = n; }",
      .architecture = "sm_90",
      .name_expressions = {"f<3>", "f<4>"}};
  Compilation::CodePtr first;
  {
    Compiler compiler(tasks_, {.disk = Disk(folder)});
    first = *compiler.Compile(source)->Wait();
    EXPECT_EQ(compiler.stats().compiled, 1);
  }
  EXPECT_THAT(first->log, HasSubstr("\"q\""));
  Compiler compiler(tasks_, {.disk = Disk(folder)});
  const auto again = compiler.Compile(source);
  EXPECT_FALSE(again->done());  // the disk is read in the background
  tasks_.RunAll();
  EXPECT_EQ(**again->Wait(), *first);
  EXPECT_TRUE(compiler.Compile(source)->done());
  EXPECT_EQ(compiler.stats().compiled, 0);
  EXPECT_EQ(compiler.stats().disk_hits, 1);
  EXPECT_EQ(compiler.stats().memory_hits, 1);
}

// Sound for the disk cache, but not what the compiler writes.
TEST_F(CompilerTest, StrangeBytesOnDiskAreCompiledOver) {
  const TemporaryFolder folder;
  (void)Compiler(tasks_, {.disk = Disk(folder)}).Compile(Numbered(1))->Wait();
  const auto disk = Disk(folder);
  std::string name;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    name = item.path().filename();
  }
  ASSERT_EQ(name.size(), 32);
  const cache::Signature key{std::stoull(name.substr(0, 16), nullptr, 16),
                             std::stoull(name.substr(16), nullptr, 16)};
  disk->Store(key, std::vector<char>{'b', 'a', 'd'});
  for (const uint64_t compiled : {1, 0}) {
    Compiler compiler(tasks_, {.disk = disk});
    EXPECT_TRUE(compiler.Compile(Numbered(1))->Wait());
    EXPECT_EQ(compiler.stats().compiled, compiled);
  }
}

TEST_F(CompilerTest, ProcessesShareTheDisk) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int child = 0; child < 2; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    base::InPlaceTaskRunner in_place;
    Compiler compiler(in_place, {.disk = Disk(folder)});
    bool right = true;
    for (int i = 0; i < 3; ++i) {
      const auto code = compiler.Compile(Numbered(i))->Wait();
      right &= code && Mentions((*code)->image, "kernel_" + std::to_string(i));
    }
    _exit(right ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  base::InPlaceTaskRunner in_place;
  Compiler compiler(in_place, {.disk = Disk(folder)});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(compiler.Compile(Numbered(i))->Wait());
  EXPECT_EQ(compiler.stats().disk_hits, 3);
  EXPECT_EQ(compiler.stats().compiled, 0);
}

TEST_F(CompilerTest, ChangedHeaderFileIsCompiledAnew) {
  const TemporaryFolder folder;
  const TemporaryFolder cache;
  KernelSource source = Numbered(1);
  source.source = "#include <body.h>\n__global__ void f(int* p) { BODY; }";
  source.options = {"-I" + folder.path()};
  base::InPlaceTaskRunner in_place;
  Compiler compiler(in_place, {.disk = Disk(cache)});
  folder.Write("body.h", "#define BODY *p = 1");
  const auto first = *compiler.Compile(source)->Wait();
  EXPECT_EQ(*compiler.Compile(source)->Wait(), first);
  folder.Write("body.h", "#define BODY *p = p[1] * 3");
  const auto second = *compiler.Compile(source)->Wait();
  EXPECT_NE(second->image, first->image);
  EXPECT_EQ(compiler.stats().compiled, 2);
}

// The header changes after the request was made and before it is compiled: the
// result must not stand for the text that was there before.
TEST_F(CompilerTest, ResultOfFilesThatChangedMeanwhileIsNotKept) {
  const TemporaryFolder folder;
  KernelSource source = Numbered(1);
  source.source = "#include <body.h>\nextern \"C\" __global__ void NAME() {}";
  source.include_paths = {folder.path()};
  Compiler compiler(tasks_);
  folder.Write("body.h", "#define NAME early");
  const auto compilation = compiler.Compile(source);
  folder.Write("body.h", "#define NAME late");
  tasks_.RunAll();
  EXPECT_TRUE(Mentions((*compilation->Wait())->image, "late"));
  folder.Write("body.h", "#define NAME early");
  const auto again = compiler.Compile(source)->Wait();
  EXPECT_TRUE(Mentions((*again)->image, "early"));
}

TEST_F(CompilerTest, WhatNoKeyTellsIsCompiledEachTime) {
  const TemporaryFolder cache;
  KernelSource source = Numbered(1);
  source.source += "\nstatic const __device__ char* made = __TIME__;";
  base::InPlaceTaskRunner in_place;
  Compiler compiler(in_place, {.disk = Disk(cache)});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(compiler.Compile(source)->Wait());
  EXPECT_EQ(compiler.stats().compiled, 2);
  EXPECT_TRUE(std::filesystem::is_empty(cache.path()));
}

}  // namespace
}  // namespace reprise::kernels
