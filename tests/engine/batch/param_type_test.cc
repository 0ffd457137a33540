// Which arguments a parameter takes, by what is known of their types.

#include "engine/batch/param_type.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::engine {
namespace {

struct Own {
  float value;
};
enum class Choice : int { kOne };

template <typename Param, typename Argument>
bool Takes() {
  return ParamType::Of<Param>().Takes(ParamType::Of<Argument>());
}

TEST(ParamTypeTest, NamesAreTheLanguages) {
  EXPECT_EQ(TypeName<float>(), "float");
  EXPECT_EQ(TypeName<double>(), "double");
  EXPECT_EQ(ParamType::Of<const float*>().Spelled(), "const float*");
  EXPECT_EQ(ParamType::Of<int**>().Spelled().front(), 'i');
  EXPECT_EQ(ParamType::Of<void*>().Spelled(), "void*");
  EXPECT_NE(TypeName<std::vector<int>>(), TypeName<std::vector<float>>());
  EXPECT_EQ(TypeName<int[3]>().back(), ']');
}

TEST(ParamTypeTest, ArgumentsOfOneSizeThatConvertWithoutAChangeAreTaken) {
  EXPECT_TRUE((Takes<int, int>()));
  EXPECT_TRUE((Takes<int, unsigned>()));
  EXPECT_TRUE((Takes<size_t, unsigned long long>()));
  EXPECT_TRUE((Takes<size_t, int64_t>()));
  EXPECT_TRUE((Takes<char, uint8_t>()));
  EXPECT_TRUE((Takes<const float*, float*>()));
  EXPECT_TRUE((Takes<float*, float*>()));
  EXPECT_TRUE((Takes<const void*, float*>()));
  EXPECT_TRUE((Takes<void*, Own*>()));
  EXPECT_TRUE((Takes<Own, Own>()));
  EXPECT_TRUE((Takes<Choice, Choice>()));
}

TEST(ParamTypeTest, OthersAreNot) {
  EXPECT_FALSE((Takes<float, int>()));
  EXPECT_FALSE((Takes<int, float>()));
  EXPECT_FALSE((Takes<size_t, int>()));
  EXPECT_FALSE((Takes<float, double>()));
  EXPECT_FALSE((Takes<bool, char>()));
  EXPECT_FALSE((Takes<char, bool>()));
  EXPECT_FALSE((Takes<float, Own>()));
  EXPECT_FALSE((Takes<Own, float>()));
  EXPECT_FALSE((Takes<int, Choice>()));
  EXPECT_FALSE((Takes<Choice, int>()));
  EXPECT_FALSE((Takes<float*, const float*>()));
  EXPECT_FALSE((Takes<float*, void*>()));
  EXPECT_FALSE((Takes<float*, double*>()));
  EXPECT_FALSE((Takes<float*, size_t>()));
  EXPECT_FALSE((Takes<size_t, float*>()));
  EXPECT_FALSE((Takes<void*, const void*>()));
}

TEST(ParamTypeTest, OfAnUnknownOneTheSizeCounts) {
  constexpr ParamType kUnknown{.size_bytes = 4};
  EXPECT_TRUE(kUnknown.Takes(ParamType::Of<float>()));
  EXPECT_TRUE(kUnknown.Takes(ParamType::Of<int>()));
  EXPECT_FALSE(kUnknown.Takes(ParamType::Of<float*>()));
}

TEST(ParamTypeTest, KeptTypeHasItsTextItself) {
  std::string name = "float";
  const KeptParamType kept(ParamType{.kind = ParamType::Kind::kOther,
                                     .size_bytes = sizeof(float),
                                     .name = name});
  name.assign("?????");
  const KeptParamType copy = kept;
  EXPECT_EQ(copy.type().Spelled(), "float");
  EXPECT_TRUE(copy.type().Takes(ParamType::Of<float>()));
}

}  // namespace
}  // namespace reprise::engine
