// What the package calls of the library, called as it does: by operators. What
// fails is told as a code and a sentence.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bindings/torch/host_runtime.h"

namespace reprise::bindings {
namespace {

using Texts = std::vector<std::string>;
using Options = c10::Dict<std::string, std::string>;

template <typename... T>
c10::IValue Op(const char* name, const T&... arguments) {
  torch::jit::Stack stack;
  (stack.emplace_back(arguments), ...);
  c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("reprise::") + name).c_str(), "")
      .callBoxed(stack);
  return stack.empty() ? c10::IValue() : stack.front();
}

Texts Enable(const std::string& device, const Options& options = Options()) {
  return Op("enable", device, options).to<Texts>();
}
int64_t ActiveId() { return Op("active").toInt(); }
Texts Activate(int64_t id) { return Op("activate", id).to<Texts>(); }

Options Option(const std::string& name, const std::string& value) {
  Options options;
  options.insert(name, value);
  return options;
}

// A runtime is active, which one of the tests' own has made.
class LibraryTest : public HostRuntimeTest {
 protected:
  static int64_t Stat(const char* name) {
    const auto stats =
        Op("stats", int64_t{-1}).to<c10::Dict<std::string, int64_t>>();
    return stats.at(name);
  }
};

TEST_F(LibraryTest, AnUnknownOptionChangesNothing) {
  const int64_t before = ActiveId();
  const Texts told = Enable("cpu", Option("polcy", "always"));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], "invalid_argument");
  EXPECT_NE(told[1].find("polcy"), std::string::npos) << told[1];
  EXPECT_EQ(ActiveId(), before);
}

TEST_F(LibraryTest, AnUnknownDeviceIsNamed) {
  for (const char* name :
       {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""}) {
    const Texts told = Enable(name);
    ASSERT_EQ(told.size(), 2u) << name;
    EXPECT_EQ(told[0], "invalid_argument");
    EXPECT_EQ(told[1], std::string("option 'device' does not accept '") + name +
                           "': give cpu, cuda, cuda:<index> or None");
  }
}

TEST_F(LibraryTest, SwitchedOffNothingIsEnabled) {
  ASSERT_EQ(Activate(-1), Texts{});
  EXPECT_EQ(Enable("cpu", Option("enabled", "0")), Texts{});
  EXPECT_EQ(ActiveId(), -1);
}

TEST_F(LibraryTest, ARuntimeIsNamedByItsId) {
  EXPECT_EQ(Enable("cpu", Option("margin", "0.25")), Texts{});
  const int64_t one = ActiveId();
  EXPECT_GE(one, 0);
  EXPECT_EQ(Enable("cpu", Option("margin", "0.75")), Texts{});
  const int64_t other = ActiveId();
  EXPECT_NE(other, one);
  EXPECT_EQ(Activate(one), Texts{});
  EXPECT_EQ(ActiveId(), one);
  EXPECT_EQ(Activate(-1), Texts{});
  EXPECT_EQ(ActiveId(), -1);
}

TEST_F(LibraryTest, TheLatestRuntimeIsAskedWhereNoneIsNamed) {
  Learn();
  EXPECT_GT(Stat("replays"), 0);
  EXPECT_GT(Stat("ops"), Stat("replays"));
  ASSERT_EQ(Activate(-1), Texts{});
  EXPECT_GT(Stat("replays"), 0) << "it was active last";
  EXPECT_NE(Op("explain_json", int64_t{-1}).toStringRef().find("\"host\""),
            std::string::npos);
  Op("reset", int64_t{-1});
  EXPECT_EQ(Stat("replays"), 0);
}

TEST_F(LibraryTest, WhoWaitsSeesBuildsEnd) {
  Learn();
  EXPECT_TRUE(Op("wait", int64_t{-1}, 60.0).toBool());
  const auto counts = Op("builds", int64_t{-1}).toIntVector();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[0], counts[1]);
}

TEST_F(LibraryTest, OfWhatIsNotThereNothingIsTold) {
  constexpr int64_t kNobody = 1 << 20;
  EXPECT_TRUE(Op("wait", kNobody, 0.0).toBool());
  EXPECT_EQ(Op("builds", kNobody).toIntVector(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(Op("explain_json", kNobody).toStringRef(), "");
  EXPECT_EQ(Op("plan_json", kNobody, std::string("12ab")).toStringRef(), "");
  EXPECT_EQ(Op("plan_json", int64_t{-1}, std::string("12ab")).toStringRef(),
            "");
  Op("reset", kNobody);
}

TEST_F(LibraryTest, EachOptionHasARow) {
  const auto rows = Op("option_table").to<std::vector<Texts>>();
  EXPECT_EQ(rows.size(), base::OptionTable().size());
  for (const Texts& row : rows) {
    ASSERT_EQ(row.size(), 5u);
    EXPECT_TRUE(row[1].starts_with("REPRISE")) << row[0];
    EXPECT_EQ(Enable("cpu", Option(row[0], row[2])), Texts{}) << row[0];
  }
}

}  // namespace
}  // namespace reprise::bindings
