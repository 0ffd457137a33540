// Which of the program's lines is told, of the frames that Python is in.

#include "bindings/torch/runtime/program_place.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::bindings {
namespace {

// Stands for itself, its code and the name of its file.
struct Frame {
  std::string file;
  int line = 0;
  Frame* back = nullptr;
  bool has_name = true;
};

// An interpreter in these frames, the innermost first.
struct Interpreter {
  std::vector<Frame> frames;
  bool running = true;
  bool finalizing = false;
  bool takes_calls = true;
  int references = 0;  // that were taken and not given back
  int errors = 0;      // that were set and not cleared
  std::vector<std::pair<int (*)(void*), void*>> later;
};
Interpreter g_python;

class Asker final : public engine::PlaceAsker {
 public:
  void Tell(uint64_t question, const std::string& place) override {
    told.emplace_back(question, place);
  }
  std::vector<std::pair<uint64_t, std::string>> told;
};

using Told = std::vector<std::pair<uint64_t, std::string>>;

class ProgramPlaceTest : public ::testing::Test {
 protected:
  ProgramPlaceTest() { g_python = {}; }
  ~ProgramPlaceTest() override {
    EXPECT_EQ(g_python.references, 0);
    EXPECT_EQ(g_python.errors, 0);
  }
  static void Be(std::vector<Frame> frames) {
    g_python.frames = std::move(frames);
    for (size_t i = 0; i + 1 < g_python.frames.size(); ++i) {
      g_python.frames[i].back = &g_python.frames[i + 1];
    }
  }
  // The main thread goes on in Python.
  static void Go() {
    for (const auto& [function, argument] : std::exchange(g_python.later, {})) {
      EXPECT_EQ(function(argument), 0);
    }
  }
  static std::string PlaceIn(std::vector<Frame> frames) {
    Be(std::move(frames));
    Asker asker;
    AskProgramPlace(&asker, 7);
    EXPECT_TRUE(asker.told.empty()) << "not before Python runs";
    Go();
    EXPECT_EQ(asker.told.size(), 1u);
    if (asker.told.empty()) return "nobody is told";
    EXPECT_EQ(asker.told[0].first, 7u);
    return asker.told[0].second;
  }
};

TEST_F(ProgramPlaceTest, IsTheProgramsInnermostLine) {
  EXPECT_EQ(PlaceIn({{"/home/me/model.py", 7}, {"/home/me/train.py", 42}}),
            "/home/me/model.py:7");
}

TEST_F(ProgramPlaceTest, IsNeitherTorchsNorOursNorTheInterpreters) {
  EXPECT_EQ(
      PlaceIn({{"<string>", 1},
               {"/env/lib/python3.11/site-packages/torch/nn/module.py", 2},
               {"/home/me/reprise/_region.py", 3},
               {"/home/me/reprise/guards/of_code.py", 4},
               {"/usr/lib/python3.11/contextlib.py", 5},
               {"/home/me/train.py", 42}}),
      "/home/me/train.py:42");
}

TEST_F(ProgramPlaceTest, OfAPackageIsToldWithTheLineThatLedThere) {
  EXPECT_EQ(
      PlaceIn({{"/env/lib/python3.11/site-packages/torch/_ops.py", 1},
               {"/env/lib/python3.11/site-packages/transformers/utils.py", 107},
               {"/env/lib/python3.11/site-packages/transformers/model.py", 8},
               {"/home/me/train.py", 42}}),
      "/home/me/train.py:42 (transformers/utils.py:107)");
  // Installed as Debian does.
  EXPECT_EQ(PlaceIn({{"/usr/lib/python3/dist-packages/some/one.py", 3},
                     {"/home/me/train.py", 42}}),
            "/home/me/train.py:42 (some/one.py:3)");
}

// They check their arguments, which no program asks for.
TEST_F(ProgramPlaceTest, NamesTorchsDistributions) {
  EXPECT_EQ(
      PlaceIn(
          {{"/env/lib/python3.11/site-packages/torch/_tensor.py", 1},
           {"/env/lib/python3.11/site-packages/torch/distributions/a.py", 7},
           {"/home/me/train.py", 42}}),
      "/home/me/train.py:42 (torch/distributions/a.py:7)");
}

TEST_F(ProgramPlaceTest, IsAPackagesWhereTheProgramIsNowhere) {
  constexpr const char* kFile = "/env/lib/python3.11/site-packages/tool/a.py";
  EXPECT_EQ(PlaceIn({{kFile, 3}}), std::string(kFile) + ":3");
  EXPECT_EQ(PlaceIn({{"<string>", 1}}), "");
  EXPECT_EQ(PlaceIn({}), "");
}

TEST_F(ProgramPlaceTest, AFrameWithoutANameIsPassedOver) {
  EXPECT_EQ(PlaceIn({{.file = "?", .line = 1, .has_name = false},
                     {"/home/me/train.py", 42}}),
            "/home/me/train.py:42");
}

TEST_F(ProgramPlaceTest, AllWhoHaveAskedAreTold) {
  Be({{"/home/me/train.py", 42}});
  Asker first, second;
  AskProgramPlace(&first, 1);
  AskProgramPlace(&second, 2);
  AskProgramPlace(&first, 3);
  EXPECT_EQ(g_python.later.size(), 1u) << "Python is asked once";
  Go();
  EXPECT_EQ(first.told,
            (Told{{1, "/home/me/train.py:42"}, {3, "/home/me/train.py:42"}}));
  EXPECT_EQ(second.told, (Told{{2, "/home/me/train.py:42"}}));
  Go();
  EXPECT_EQ(first.told.size(), 2u) << "once";
}

// Where the main thread is says nothing of another one, unless it waits for
// that one in autograd's engine.
TEST_F(ProgramPlaceTest, AnotherThreadIsToldWhereBackwardWasCalled) {
  const auto asked_elsewhere = [](std::vector<Frame> frames) {
    Be(std::move(frames));
    Asker asker;
    std::thread([&] { AskProgramPlace(&asker, 7); }).join();
    Go();
    return asker.told;
  };
  EXPECT_EQ(asked_elsewhere({{"/home/me/train.py", 42}}), (Told{{7, ""}}));
  EXPECT_EQ(
      asked_elsewhere(
          {{"/env/lib/python3.11/site-packages/torch/autograd/graph.py", 8},
           {"/home/me/train.py", 42}}),
      (Told{{7, "/home/me/train.py:42"}}));
}

TEST_F(ProgramPlaceTest, NobodyIsAskedWherePythonDoesNotRun) {
  Asker asker;
  g_python.running = false;
  AskProgramPlace(&asker, 1);
  g_python.running = true;
  g_python.finalizing = true;
  AskProgramPlace(&asker, 2);
  EXPECT_TRUE(g_python.later.empty());
  g_python.finalizing = false;
  EXPECT_EQ(PlaceIn({{"/home/me/train.py", 42}}), "/home/me/train.py:42");
  EXPECT_TRUE(asker.told.empty());
}

TEST_F(ProgramPlaceTest, WhereThePythonEndsMeanwhileNothingIsKnown) {
  Be({{"/home/me/train.py", 42}});
  Asker asker;
  AskProgramPlace(&asker, 1);
  g_python.finalizing = true;
  Go();
  EXPECT_EQ(asker.told, (Told{{1, ""}}));
}

// Its list of calls may be full.
TEST_F(ProgramPlaceTest, AfterARefusalPythonIsAskedAgain) {
  g_python.takes_calls = false;
  Asker refused;
  AskProgramPlace(&refused, 1);
  g_python.takes_calls = true;
  EXPECT_EQ(PlaceIn({{"/home/me/train.py", 42}}), "/home/me/train.py:42");
  EXPECT_TRUE(refused.told.empty());
}

}  // namespace
}  // namespace reprise::bindings

// Found by their names, as the interpreter's are.
extern "C" {
using reprise::bindings::Frame;
using reprise::bindings::g_python;

[[gnu::visibility("default")]] int Py_IsInitialized() {
  return g_python.running ? 1 : 0;
}
[[gnu::visibility("default")]] int _Py_IsFinalizing() {
  return g_python.finalizing ? 1 : 0;
}
[[gnu::visibility("default")]] int Py_AddPendingCall(int (*function)(void*),
                                                     void* argument) {
  if (!g_python.takes_calls) return -1;
  g_python.later.emplace_back(function, argument);
  return 0;
}
[[gnu::visibility("default")]] void* PyEval_GetFrame() {
  return g_python.frames.empty() ? nullptr : g_python.frames.data();
}
[[gnu::visibility("default")]] void* PyFrame_GetBack(void* frame) {
  Frame* const back = static_cast<Frame*>(frame)->back;
  g_python.references += back != nullptr ? 1 : 0;
  return back;
}
[[gnu::visibility("default")]] void* PyFrame_GetCode(void* frame) {
  ++g_python.references;
  return frame;
}
[[gnu::visibility("default")]] int PyFrame_GetLineNumber(void* frame) {
  return static_cast<Frame*>(frame)->line;
}
[[gnu::visibility("default")]] void* PyObject_GetAttrString(void* code,
                                                            const char* name) {
  EXPECT_STREQ(name, "co_filename");
  if (!static_cast<Frame*>(code)->has_name) {
    ++g_python.errors;
    return nullptr;
  }
  ++g_python.references;
  return code;
}
[[gnu::visibility("default")]] const char* PyUnicode_AsUTF8AndSize(
    void* name, ptrdiff_t* size) {
  const std::string& file = static_cast<Frame*>(name)->file;
  *size = static_cast<ptrdiff_t>(file.size());
  return file.data();
}
[[gnu::visibility("default")]] void PyErr_Clear() { g_python.errors = 0; }
[[gnu::visibility("default")]] void Py_IncRef(void*) { ++g_python.references; }
[[gnu::visibility("default")]] void Py_DecRef(void*) { --g_python.references; }
}
