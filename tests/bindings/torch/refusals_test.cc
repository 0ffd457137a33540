// Each cause of a refusal has a sentence of its own.

#include "bindings/torch/region/refusals.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace reprise::bindings {
namespace {

TEST(RefusalsTest, EachHasASentenceOfItsOwn) {
  std::set<std::string> seen;
  const auto last = static_cast<int>(Refusal::kFunctionWithGradients);
  for (int i = 0; i <= last; ++i) {
    const std::string sentence = SentenceOf(static_cast<Refusal>(i));
    EXPECT_FALSE(sentence.empty()) << i;
    EXPECT_FALSE(sentence.ends_with('.')) << sentence;
    EXPECT_EQ(sentence.find("  "), std::string::npos) << sentence;
    EXPECT_TRUE(seen.insert(sentence).second) << sentence;
  }
}

}  // namespace
}  // namespace reprise::bindings
