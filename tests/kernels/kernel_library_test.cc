// Proves by which names kernels and variables of loaded code are found, and
// when it is unloaded.

#include "kernels/kernel_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_libraries.h"

namespace reprise::kernels {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// As the compiler writes them: "plain", space::scale(float*), and set() of two
// types.
constexpr std::string_view kCode =
    ".entry plain() .entry _ZN5space5scaleEPf() .entry _Z3setPff() "
    ".entry _Z3setPfi()\0";

class KernelLibraryTest : public testing::Test {
 protected:
  KernelLibraryTest() {
    for (const char* name :
         {"plain", "_ZN5space5scaleEPf", "_Z3setPff", "_Z3setPfi"}) {
      libraries_.host_code[name] = sim::SimulatedGpu::MakeKernel(+[] {});
    }
  }
  void SetUp() override {
    auto library = Load();
    ASSERT_TRUE(library) << library.error().message();
    library_ = *library;
  }
  ~KernelLibraryTest() override {
    library_.reset();
    EXPECT_EQ(libraries_.loaded(), 0u);
  }

  base::Result<std::shared_ptr<KernelLibrary>> Load() {
    return KernelLibrary::Load(gpu_.driver, gpu_.context, kCode);
  }
  std::string Why(const std::string& name, std::string_view source = {}) {
    const auto found = library_->Find(name, source);
    EXPECT_FALSE(found);
    if (found) return "";
    EXPECT_EQ(found.error().code(), base::Code::kInvalidArgument);
    return found.error().message();
  }

  sim::SimulatedGpu gpu_;
  sim::SimulatedLibraries libraries_{gpu_};
  std::shared_ptr<KernelLibrary> library_;
};

TEST_F(KernelLibraryTest, AKernelIsFoundByItsNameInTheCodeOrTheSource) {
  const auto plain = library_->Find("plain");
  ASSERT_TRUE(plain) << plain.error().message();
  const auto scale = library_->Find("space::scale");
  ASSERT_TRUE(scale) << scale.error().message();
  EXPECT_NE(*plain, *scale);
  EXPECT_EQ(*scale, *library_->Find("_ZN5space5scaleEPf"));
}

TEST_F(KernelLibraryTest, AKernelThatIsFoundIsOnTheDevice) {
  EXPECT_EQ(libraries_.ready_calls, 0);
  ASSERT_TRUE(library_->Find("plain"));
  EXPECT_EQ(libraries_.ready_calls, 1);
}

TEST_F(KernelLibraryTest, ANameOfNoneOrOfTwoIsToldWithThoseThatThereAre) {
  EXPECT_THAT(Why("plane"), AllOf(HasSubstr("has no kernel 'plane'"),
                                  HasSubstr("space::scale")));
  EXPECT_THAT(Why("set"), AllOf(HasSubstr("has 2 kernels 'set'"),
                                HasSubstr("set(float*, int)")));
  EXPECT_THAT(
      Why("wide", "template <typename T> __global__ void wide(T* p) {}"),
      HasSubstr("the template wide"));
}

TEST_F(KernelLibraryTest, AVariableIsFoundByItsNameInTheCodeOrTheSource) {
  gpu_.driver.cuLibraryGetGlobal = [](CUdeviceptr* address, size_t* size_bytes,
                                      CUlibrary, const char* name) {
    const bool plain = std::strcmp(name, "plain") == 0;
    if (!plain && std::strcmp(name, "_ZN5space5inner5tableE") != 0) {
      return CUDA_ERROR_NOT_FOUND;
    }
    *address = plain ? 0x1000 : 0x2000;
    *size_bytes = 64;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(library_->FindVariable("plain")->address, 0x1000u);
  const auto table = library_->FindVariable("space::inner::table");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->address, 0x2000u);
  EXPECT_EQ(table->size_bytes, 64u);
  const auto none = library_->FindVariable("table");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(none.error().message(), HasSubstr("has no variable 'table'"));
}

TEST_F(KernelLibraryTest, AnErrorHasWhatTheTranslatorSaid) {
  gpu_.driver.cuLibraryLoadData = [](CUlibrary*, const void*, CUjit_option*,
                                     void** values, unsigned, CUlibraryOption*,
                                     void**, unsigned) {
    std::strcpy(static_cast<char*>(values[0]), "line 3 is wrong");
    return CUDA_ERROR_INVALID_PTX;
  };
  EXPECT_THAT(Load().error().message(), EndsWith("\nline 3 is wrong"));
}

TEST_F(KernelLibraryTest, AFailedCallIsAnErrorAndNoMissingName) {
  int errors = 0;
  for (int calls = 0;; ++calls) {
    gpu_.failed.clear();
    gpu_.FailAfter(calls);
    const auto found = library_->Find("space::scale");
    gpu_.FailAfter(-1);
    if (gpu_.failed.empty()) break;
    if (found) continue;
    ++errors;
    EXPECT_NE(found.error().code(), base::Code::kInvalidArgument)
        << gpu_.failed;
  }
  EXPECT_GE(errors, 6);  // of each call by which it is looked for
}

TEST_F(KernelLibraryTest, NoCaptureIsBrokenByLoadingFindingOrUnloading) {
  gpu_.capturing = true;
  auto other = Load();
  ASSERT_TRUE(other);
  EXPECT_TRUE((*other)->Find("space::scale"));
  other->reset();
  EXPECT_EQ(gpu_.broken_captures, 0);
  gpu_.capturing = false;
  EXPECT_EQ(libraries_.loaded(), 1u);
}

}  // namespace
}  // namespace reprise::kernels
