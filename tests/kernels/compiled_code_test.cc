// Compiled code as bytes and back.

#include "kernels/compiled_code.h"

#include <gtest/gtest.h>

namespace reprise::kernels {
namespace {

CompiledCode Sample() {
  return {.format = CodeFormat::kPtx,
          .architecture = "compute_90",
          .image = {'a', '\0', '\xff'},
          .lowered_names = {{"f<int>", "_Z1fIiEvv"}, {"", "empty"}},
          .log = "a warning\n"};
}

TEST(CompiledCodeTest, ComesBackAsItWas) {
  EXPECT_EQ(CompiledCode::Parse(Sample().Serialize()), Sample());
  EXPECT_EQ(CompiledCode::Parse(CompiledCode().Serialize()), CompiledCode());
}

TEST(CompiledCodeTest, CutOrLengthenedBytesAreNothing) {
  std::vector<char> bytes = Sample().Serialize();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(CompiledCode::Parse(std::span(bytes).first(size)), std::nullopt);
  }
  bytes.push_back('\0');
  EXPECT_EQ(CompiledCode::Parse(bytes), std::nullopt);
}

// Wrong lengths must not be read beyond the end or asked memory for.
TEST(CompiledCodeTest, AnyByteMayBeWrong) {
  const std::vector<char> good = Sample().Serialize();
  size_t parsed = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::vector<char> bad = good;
      bad[i] = static_cast<char>(value);
      if (CompiledCode::Parse(bad)) ++parsed;
    }
  }
  EXPECT_LT(parsed, 5 * good.size());
}

TEST(CompiledCodeTest, SizeCountsEveryText) {
  const size_t empty = CompiledCode().size_bytes();
  EXPECT_GE(Sample().size_bytes(), empty + 10 + 3 + 10 + 6 + 9 + 5);
}

}  // namespace
}  // namespace reprise::kernels
