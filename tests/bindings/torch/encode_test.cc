// Within an operator equal words mean equal arguments, of every type.

#include "bindings/torch/hook/encode.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

using Words = std::vector<uint64_t>;
using Indices = c10::List<std::optional<at::Tensor>>;

OpInfo InfoOf(const char* name, const char* overload = "") {
  return DescribeOp(
      c10::Dispatcher::singleton().findSchemaOrThrow(name, overload),
      /*factory=*/false);
}

// The call of an operator with these arguments.
class Encoded {
 public:
  template <typename... T>
  explicit Encoded(const OpInfo& info, const T&... arguments)
      : call_(info, scheduler::DeviceKind::kHost) {
    (Add(arguments), ...);
    foreign_ = !call_.Finish().has_value();
  }
  Words words() const {
    const auto words = call_.view().words;
    return Words(words.begin(), words.end());
  }
  std::string cut() const {
    return call_.view().cut == nullptr ? "" : call_.view().cut;
  }
  std::vector<double> numbers() const {
    std::vector<double> numbers;
    for (const engine::Scalar& scalar : call_.view().scalars) {
      numbers.push_back(scalar.type == engine::NumberType::kInt64
                            ? static_cast<double>(scalar.bits)
                            : std::bit_cast<double>(scalar.bits));
    }
    return numbers;
  }
  bool foreign() const { return foreign_; }

 private:
  template <typename T>
  void Add(const T& argument) {
    call_.NextArgument();
    Encode(call_, argument);
  }

  OpCall call_;
  bool foreign_ = false;
};

class EncodeTest : public ::testing::Test {
 protected:
  template <typename... T>
  Words WordsOf(const T&... arguments) const {
    return Encoded(info_, a_, arguments...).words();
  }
  template <typename... T>
  std::string CutOf(const T&... arguments) const {
    return Encoded(info_, a_, arguments...).cut();
  }
  static void ExpectAllApart(const std::vector<Words>& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t k = 0; k < all.size(); ++k) {
        EXPECT_EQ(all[i] == all[k], i == k) << i << " " << k;
      }
    }
  }

  const at::Tensor a_ = at::ones({2, 3});
  const OpInfo info_ = InfoOf("aten::sum", "dim_IntList");
};

TEST_F(EncodeTest, ListsSayHowManyElementsFollow) {
  using Ints = std::vector<int64_t>;
  const Ints one = {1}, two = {1, 2}, rest = {2, 3}, last = {3}, none;
  const auto words = [this](const Ints& a, const Ints& b) {
    return WordsOf(at::IntArrayRef(a), at::IntArrayRef(b));
  };
  ExpectAllApart({words(one, rest), words(two, last), words(none, rest),
                  words(rest, none), words(none, none)});
  const std::vector<double> doubles = {1, 2}, others = {1, -2};
  ExpectAllApart({WordsOf(at::ArrayRef<double>(doubles)),
                  WordsOf(at::ArrayRef<double>(others)),
                  WordsOf(at::ArrayRef<double>())});
}

TEST_F(EncodeTest, OptionalsSayWhetherOneFollows) {
  ExpectAllApart({WordsOf(std::optional<int64_t>()),
                  WordsOf(std::optional<int64_t>(0)),
                  WordsOf(std::optional<int64_t>(1))});
  ExpectAllApart({WordsOf(std::optional<bool>()),
                  WordsOf(std::optional<bool>(false)),
                  WordsOf(std::optional<bool>(true))});
  const std::vector<int64_t> empty;
  ExpectAllApart({WordsOf(at::OptionalIntArrayRef()),
                  WordsOf(at::OptionalIntArrayRef(empty))});
  const std::optional<at::Tensor> none, undefined = at::Tensor();
  ExpectAllApart({WordsOf(none), WordsOf(undefined),
                  WordsOf(std::optional<at::Tensor>(a_))});
  EXPECT_EQ(WordsOf(std::optional<int64_t>(1)), WordsOf(int64_t{1}));
}

TEST_F(EncodeTest, StringsAreToldByEveryCharacter) {
  using namespace std::string_view_literals;
  ExpectAllApart({WordsOf(""sv), WordsOf("a"sv), WordsOf("a\0"sv),
                  WordsOf("12345678"sv), WordsOf("123456789"sv),
                  WordsOf("12345679"sv)});
}

TEST_F(EncodeTest, ScalarsAreOfTheirTypeAndExact) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ExpectAllApart({WordsOf(at::Scalar(1)), WordsOf(at::Scalar(1.0)),
                  WordsOf(at::Scalar(true)), WordsOf(at::Scalar(-1)),
                  WordsOf(at::Scalar(0.0)), WordsOf(at::Scalar(-0.0)),
                  WordsOf(at::Scalar(nan)),
                  WordsOf(at::Scalar(c10::complex<double>(1, 0))),
                  WordsOf(at::Scalar(c10::complex<double>(1, 2)))});
  EXPECT_EQ(WordsOf(at::Scalar(nan)), WordsOf(at::Scalar(nan)));
}

TEST_F(EncodeTest, OptionsAreToldByValue) {
  ExpectAllApart({WordsOf(at::kFloat), WordsOf(at::kDouble)});
  ExpectAllApart({WordsOf(at::MemoryFormat::Contiguous),
                  WordsOf(at::MemoryFormat::ChannelsLast)});
  ExpectAllApart({WordsOf(std::array{true, false}),
                  WordsOf(std::array{false, true}),
                  WordsOf(std::array{true, false, false})});
  ExpectAllApart({WordsOf(true), WordsOf(false)});
  ExpectAllApart({WordsOf(0.0), WordsOf(-0.0), WordsOf(1.0)});
}

TEST_F(EncodeTest, SizesAreTheSameInEitherType) {
  const std::vector<int64_t> ints = {2, 3};
  const std::vector<c10::SymInt> sizes = {2, 3};
  EXPECT_EQ(WordsOf(c10::SymIntArrayRef(sizes)),
            WordsOf(at::IntArrayRef(ints)));
  EXPECT_EQ(WordsOf(c10::SymInt(3)), WordsOf(int64_t{3}));
}

TEST_F(EncodeTest, ListsOfTensorsAreToldByTheirOrder) {
  const at::Tensor b = at::ones({5});
  const std::vector<at::Tensor> ab = {a_, b}, ba = {b, a_}, one = {a_};
  ExpectAllApart({WordsOf(at::TensorList(ab)), WordsOf(at::TensorList(ba)),
                  WordsOf(at::TensorList(one)), WordsOf(at::TensorList())});
  EXPECT_EQ(WordsOf(at::ITensorListRef(ab)), WordsOf(at::TensorList(ab)));
}

TEST_F(EncodeTest, AMaskAmongIndicesIsACut) {
  const at::Tensor index = at::zeros({2}, at::kLong);
  EXPECT_EQ(CutOf(Indices({std::nullopt, index})), "");
  for (const at::ScalarType dtype : {at::kBool, at::kByte}) {
    EXPECT_EQ(CutOf(Indices({index, at::zeros({2}, dtype)})),
              "what a mask selects depends on data");
  }
  ExpectAllApart({WordsOf(Indices({std::nullopt, index})),
                  WordsOf(Indices({index, std::nullopt})),
                  WordsOf(Indices({index}))});
}

TEST_F(EncodeTest, WhatNoTraceHoldsIsACut) {
  EXPECT_EQ(CutOf(a_.storage()), "takes a storage");
  EXPECT_EQ(CutOf(at::Stream(at::Stream::DEFAULT, at::Device(at::kCPU))),
            "takes a stream");
  using Generator = std::optional<at::Generator>;
  EXPECT_EQ(CutOf(Generator()), "");
  EXPECT_EQ(CutOf(Generator(at::Generator())), "");
  EXPECT_EQ(CutOf(Generator(at::detail::createCPUGenerator(1))),
            "explicit generator");
}

TEST_F(EncodeTest, LayoutsAndPinnedMemoryAreOfNoTrace) {
  EXPECT_FALSE(Encoded(info_, a_, at::kStrided).foreign());
  EXPECT_TRUE(Encoded(info_, a_, at::kSparse).foreign());
  const std::optional<bool> yes = true, no = false;
  const std::optional<at::Device> device;
  EXPECT_FALSE(Encoded(info_, a_, device, no).foreign());
  EXPECT_TRUE(Encoded(info_, a_, device, yes).foreign());
  EXPECT_FALSE(Encoded(info_, a_, yes).foreign()) << "it follows no device";
}

TEST_F(EncodeTest, NumbersThatKernelsTakeByValueMayBeSlots) {
  const OpInfo mul = InfoOf("aten::mul", "Scalar");
  EXPECT_EQ(Encoded(mul, a_, at::Scalar(2.5)).numbers(),
            std::vector<double>{2.5});
  EXPECT_EQ(Encoded(mul, a_, at::Scalar(7)).numbers(), std::vector<double>{7});
  EXPECT_TRUE(Encoded(mul, a_, at::Scalar(true)).numbers().empty());
  EXPECT_TRUE(Encoded(info_, a_, at::Scalar(2.5)).numbers().empty());
}

}  // namespace
}  // namespace reprise::bindings
