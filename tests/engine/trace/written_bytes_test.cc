// Proves which bytes count as written.

#include "engine/trace/written_bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace reprise::engine {
namespace {

// A matrix of 4-byte elements in a value of `kRows` rows of `kColumns`.
constexpr int64_t kRows = 5;
constexpr int64_t kColumns = 7;
constexpr uint64_t kBytes = uint64_t{kRows} * kColumns * 4;

struct Matrix {
  std::array<int64_t, 2> sizes;
  std::array<int64_t, 2> strides = {kColumns, 1};
  uint64_t offset_bytes = 0;

  ElementsAt at() const {
    return {.offset_bytes = offset_bytes,
            .element_bytes = 4,
            .sizes = sizes,
            .strides = strides};
  }
};

const Matrix kWhole = {{kRows, kColumns}};

TEST(WrittenBytesTest, NothingIsWrittenAtFirst) {
  const WrittenBytes written(kBytes);
  EXPECT_FALSE(written.Has(kWhole.at()));
  EXPECT_TRUE(written.Has(Matrix{{0, kColumns}}.at()));
}

TEST(WrittenBytesTest, AWriteOfAllIsAll) {
  WrittenBytes written(kBytes);
  written.Write(kWhole.at());
  EXPECT_TRUE(written.Has(kWhole.at()));
}

TEST(WrittenBytesTest, ColumnsAddUp) {
  WrittenBytes written(kBytes);
  for (int64_t column = 0; column < kColumns; ++column) {
    EXPECT_FALSE(written.Has(kWhole.at())) << column;
    const Matrix one = {{kRows, 1}, {kColumns, 1}, uint64_t(column) * 4};
    EXPECT_FALSE(written.Has(one.at()));
    written.Write(one.at());
    EXPECT_TRUE(written.Has(one.at()));
  }
  EXPECT_TRUE(written.Has(kWhole.at()));
  // Transposed, it is the same elements.
  EXPECT_TRUE(written.Has(Matrix{{kColumns, kRows}, {1, kColumns}}.at()));
}

TEST(WrittenBytesTest, ElementsOfAnotherSizeCountWhereTheyCoverThose) {
  WrittenBytes written(16);
  constexpr std::array<int64_t, 1> kTwo = {2}, kOnes = {1}, kOne = {1};
  const ElementsAt words = {0, 4, kTwo, kOnes};
  written.Write(words);
  EXPECT_TRUE(written.Has({0, 8, kOne, kOnes}));
  EXPECT_FALSE(written.Has({4, 8, kOne, kOnes}));
  // Half an element is none.
  written.Write({8, 2, kOne, kOnes});
  EXPECT_FALSE(written.Has({8, 4, kOne, kOnes}));
  written.Write({8, 8, kOne, kOnes});
  EXPECT_TRUE(written.Has({0, 16, kOne, kOnes}));
}

TEST(WrittenBytesTest, BeyondTheValueNothingIsWritten) {
  WrittenBytes written(kBytes);
  written.Write(Matrix{{kRows + 1, kColumns}}.at());
  EXPECT_FALSE(written.Has(Matrix{{kRows + 1, kColumns}}.at()));
}

// Against a plain array of flags, on random views.
TEST(WrittenBytesTest, SaysWhatAPlainArrayDoes) {
  std::mt19937 random(1);
  const auto draw = [&random](int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  };
  for (int round = 0; round < 200; ++round) {
    WrittenBytes written(kBytes);
    std::vector<bool> plain(kRows * kColumns, false);
    for (int step = 0; step < 12; ++step) {
      const int64_t row = draw(kRows), column = draw(kColumns);
      Matrix view = {{1 + draw(kRows - row), 1 + draw(kColumns - column)}};
      view.offset_bytes = static_cast<uint64_t>(row * kColumns + column) * 4;
      const int64_t skip = 1 + draw(2);
      view.strides[0] *= skip;
      view.sizes[0] = (view.sizes[0] - 1) / skip + 1;
      const bool turned = draw(2) == 0;
      if (turned) {
        std::swap(view.sizes[0], view.sizes[1]);
        std::swap(view.strides[0], view.strides[1]);
      }
      bool all = true;
      const bool writes = draw(2) == 0;
      for (int64_t i = 0; i < view.sizes[0]; ++i) {
        for (int64_t j = 0; j < view.sizes[1]; ++j) {
          const auto at =
              static_cast<size_t>(row * kColumns + column +
                                  i * view.strides[0] + j * view.strides[1]);
          all = all && plain[at];
          if (writes) plain[at] = true;
        }
      }
      EXPECT_EQ(written.Has(view.at()), all) << round << " " << step;
      if (writes) written.Write(view.at());
    }
  }
}

}  // namespace
}  // namespace reprise::engine
