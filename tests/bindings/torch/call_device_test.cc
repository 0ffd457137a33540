// Which device's session is shown a call, by what its arguments say.

#include "bindings/torch/hook/call_device.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise::bindings {
namespace {

using scheduler::DeviceKind;

// What Choose says: why the call is cut, "" if it is not, "none" if no session
// is shown it.
std::string Chosen(CallDevice& device, bool factory = false) {
  const char* why_cut = "";
  return device.Choose(factory, &why_cut) ? why_cut : "none";
}

TEST(CallDeviceTest, TheFirstOperandDecides) {
  CallDevice device(DeviceKind::kCuda);
  EXPECT_TRUE(device.AddOnDevice(1));
  EXPECT_TRUE(device.AddOnDevice(1));
  EXPECT_EQ(device.others(), 0u);
  EXPECT_FALSE(device.AddOnDevice(0));
  EXPECT_EQ(Chosen(device), "");
  EXPECT_EQ(device.index(), 1);
  EXPECT_EQ(device.others(), 1u);
}

TEST(CallDeviceTest, WithoutAnOperandOnlyFactoriesOfTheHostAreShown) {
  CallDevice host(DeviceKind::kHost);
  EXPECT_EQ(Chosen(host), "none");
  EXPECT_EQ(Chosen(host, /*factory=*/true), "");
  EXPECT_EQ(host.index(), 0);
  CallDevice cuda(DeviceKind::kCuda);
  EXPECT_EQ(Chosen(cuda, /*factory=*/true), "none");
  EXPECT_EQ(cuda.index(), -1);
}

TEST(CallDeviceTest, PythonFillsWhatItMakesWithItsKeyExcluded) {
  const c10::impl::ExcludeDispatchKeyGuard python(c10::DispatchKey::Python);
  CallDevice made(DeviceKind::kHost);
  EXPECT_EQ(Chosen(made, /*factory=*/true), "none");
  CallDevice used(DeviceKind::kHost);
  used.AddOnHost();
  EXPECT_EQ(Chosen(used, /*factory=*/true), "");
}

TEST(CallDeviceTest, AnOptionDecidesWithoutAnOperand) {
  CallDevice device(DeviceKind::kCuda);
  device.SetOption({at::kCUDA, 1});
  EXPECT_EQ(Chosen(device), "");
  EXPECT_EQ(device.index(), 1);
}

TEST(CallDeviceTest, CopiesToSomewhereElseAreCut) {
  const auto copied_to = [](c10::Device to) {
    CallDevice device(DeviceKind::kCuda);
    EXPECT_TRUE(device.AddOnDevice(0));
    device.SetOption(to);
    return Chosen(device);
  };
  EXPECT_EQ(copied_to({at::kCUDA, 0}), "");
  EXPECT_EQ(copied_to({at::kCUDA, 1}), "copies to another device");
  EXPECT_EQ(copied_to(at::kCPU), "copies to the host");
  EXPECT_EQ(copied_to(at::kMeta), "none");
}

TEST(CallDeviceTest, ACallOnAForeignTensorIsShownToNoSession) {
  CallDevice host(DeviceKind::kHost);
  EXPECT_TRUE(
      host.AddForeign(*at::rand({2}).to_sparse().unsafeGetTensorImpl()));
  EXPECT_TRUE(host.foreign());
  EXPECT_EQ(Chosen(host), "none");
  EXPECT_EQ(host.index(), 0);  // its memory is used all the same
  CallDevice cuda(DeviceKind::kCuda);
  EXPECT_TRUE(cuda.AddForeign(*at::rand({2}).unsafeGetTensorImpl()));
  EXPECT_EQ(Chosen(cuda), "none");
  EXPECT_EQ(cuda.index(), -1);
}

TEST(CallDeviceTest, AForeignTensorWithoutAStorageMayUseEveryDevice) {
  const auto tensor = c10::make_intrusive<c10::TensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::CUDA),
      caffe2::TypeMeta::Make<float>(), c10::Device(at::kCUDA, 1));
  CallDevice device(DeviceKind::kCuda);
  EXPECT_TRUE(device.AddForeign(*tensor));
  EXPECT_EQ(device.index(), 0);
  EXPECT_EQ(device.others(), CallDevice::kEveryDevice);
}

}  // namespace
}  // namespace reprise::bindings
