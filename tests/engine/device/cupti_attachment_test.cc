// Proves when CUPTI has Reprise's subscription, and when it leaves the process.

#include "engine/device/cupti_attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/device/cupti_gate.h"
#include "engine/device/launch_recorder.h"

namespace reprise::device {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong(60);
constexpr std::chrono::seconds kNone(0);
constexpr int kTries = 1000;

void Callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

// A CUPTI that has one subscriber at a time.
class CuptiAttachmentTest : public ::testing::Test {
 protected:
  CuptiAttachmentTest() {
    only_ = this;
    driver_.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
      std::swap(*mode, only_->mode_);
      return CUDA_SUCCESS;
    };
    cupti_.cuptiSubscribe_v2 = [](CUpti_SubscriberHandle* handle,
                                  CUpti_CallbackFunc callback, void*,
                                  CUpti_SubscriberParams* params) {
      EXPECT_EQ(only_->mode_, CU_STREAM_CAPTURE_MODE_RELAXED);
      EXPECT_EQ(callback, &Callback);
      if (only_->held_by_another_tool_ || only_->subscribed_) {
        std::strcpy(params->oldSubscriberName, "a profiler");
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
      }
      only_->subscribed_ = true;
      ++only_->subscriptions_;
      *handle = reinterpret_cast<CUpti_SubscriberHandle>(only_);
      return CUPTI_SUCCESS;
    };
    cupti_.cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
      if (only_->refuses_to_end_) return CUPTI_ERROR_UNKNOWN;
      EXPECT_FALSE(only_->enabled_) << "callbacks were on";
      only_->subscribed_ = false;
      return CUPTI_SUCCESS;
    };
    cupti_.cuptiEnableDomain = [](uint32_t enable, CUpti_SubscriberHandle,
                                  CUpti_CallbackDomain domain) {
      EXPECT_EQ(domain, CUPTI_CB_DOMAIN_DRIVER_API);
      if (enable != 0 && only_->refuses_callbacks_) {
        return CUPTI_ERROR_NOT_COMPATIBLE;
      }
      only_->enabled_ = enable != 0;
      return CUPTI_SUCCESS;
    };
    cupti_.cuptiFinalize = [] {
      if (only_->refuses_to_detach_) return CUPTI_ERROR_UNKNOWN;
      ++only_->detached_;
      return CUPTI_SUCCESS;
    };
    cupti_.cuptiGetResultString = [](CUptiResult, const char** text) {
      *text = "a meaning";
      return CUPTI_SUCCESS;
    };
    attachment_.emplace(driver_, cupti_, &Callback);
  }
  // That CUPTI is attached is the process's: the next test begins without.
  ~CuptiAttachmentTest() override {
    held_by_another_tool_ = refuses_to_detach_ = refuses_to_end_ = false;
    attachment_->Detach(kTries, kLong);
    EXPECT_FALSE(CuptiAttachment::attached());
  }

  static inline CuptiAttachmentTest* only_ = nullptr;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool subscribed_ = false;
  bool enabled_ = false;
  bool held_by_another_tool_ = false;
  bool refuses_callbacks_ = false;
  bool refuses_to_end_ = false;
  bool refuses_to_detach_ = false;
  int subscriptions_ = 0;
  int detached_ = 0;
  Driver driver_;
  Cupti cupti_;
  const LaunchRecorder::Hidden hidden_;
  std::optional<CuptiAttachment> attachment_;
};

TEST_F(CuptiAttachmentTest, ASubscriptionOutlastsItsCallbacks) {
  ASSERT_TRUE(attachment_->Subscribe());
  ASSERT_TRUE(attachment_->Subscribe());
  EXPECT_EQ(subscriptions_, 1);
  EXPECT_TRUE(CuptiAttachment::attached());
  EXPECT_FALSE(enabled_);
  ASSERT_TRUE(attachment_->Enable());
  EXPECT_TRUE(enabled_);
  attachment_->Disable();
  EXPECT_FALSE(enabled_);
  EXPECT_TRUE(subscribed_);
  EXPECT_TRUE(attachment_->GiveUp(kLong));
  EXPECT_FALSE(subscribed_);
  EXPECT_TRUE(CuptiAttachment::attached());
  EXPECT_EQ(mode_, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(CuptiAttachmentTest, ASubscriptionEndsBehindCallbacksThatAreUnderWay) {
  ASSERT_TRUE(attachment_->Subscribe());
  ASSERT_TRUE(attachment_->Enable());
  {
    const CuptiAttachment::InCallback under_way;
    EXPECT_FALSE(attachment_->GiveUp(kNone));
    EXPECT_TRUE(subscribed_);
    EXPECT_FALSE(enabled_);
  }
  EXPECT_TRUE(attachment_->GiveUp(kLong));
  EXPECT_FALSE(subscribed_);
}

TEST_F(CuptiAttachmentTest, ASubscriptionThatCuptiKeepsIsEndedLater) {
  ASSERT_TRUE(attachment_->Subscribe());
  refuses_to_end_ = true;
  EXPECT_FALSE(attachment_->GiveUp(kLong));
  refuses_to_end_ = false;
  EXPECT_TRUE(attachment_->GiveUp(kLong));
  EXPECT_FALSE(subscribed_);
}

TEST_F(CuptiAttachmentTest, AnotherToolIsNamed) {
  held_by_another_tool_ = true;
  const base::Status subscribed = attachment_->Subscribe();
  ASSERT_FALSE(subscribed);
  EXPECT_EQ(subscribed.error().code(), base::Code::kUnavailable);
  EXPECT_THAT(subscribed.error().message(), HasSubstr("(a profiler)"));
  EXPECT_FALSE(CuptiAttachment::attached());
}

TEST_F(CuptiAttachmentTest, ASubscriptionWithoutCallbacksIsGivenUp) {
  ASSERT_TRUE(attachment_->Subscribe());
  refuses_callbacks_ = true;
  const base::Status enabled = attachment_->Enable();
  ASSERT_FALSE(enabled);
  EXPECT_THAT(enabled.error().message(), HasSubstr("a meaning"));
  refuses_callbacks_ = false;
  EXPECT_TRUE(attachment_->GiveUp(kLong));
  EXPECT_FALSE(subscribed_);
  ASSERT_TRUE(attachment_->Subscribe());
  EXPECT_EQ(subscriptions_, 2);
}

TEST_F(CuptiAttachmentTest, AnotherAttachmentTakesTheSubscription) {
  ASSERT_TRUE(attachment_->Subscribe());
  CuptiAttachment other(driver_, cupti_, &Callback);
  ASSERT_TRUE(other.Subscribe());
  EXPECT_EQ(subscriptions_, 2);
  EXPECT_TRUE(attachment_->GiveUp(kNone));  // it has none
  EXPECT_TRUE(subscribed_);
  EXPECT_TRUE(other.GiveUp(kLong));
}

TEST_F(CuptiAttachmentTest, IsNotAttachedWhileAnotherThreadIsInsideTheGate) {
  CuptiGate::Enter();
  const base::Status subscribed = attachment_->Subscribe();
  ASSERT_FALSE(subscribed);
  EXPECT_EQ(subscribed.error().code(), base::Code::kUnavailable);
  CuptiGate::Leave();
  ASSERT_TRUE(attachment_->Subscribe());
  // One that is attached can be subscribed to at any time, but not detached.
  ASSERT_TRUE(attachment_->GiveUp(kLong));
  CuptiGate::Enter();
  EXPECT_TRUE(attachment_->Subscribe());
  attachment_->Detach(kTries, kLong);
  EXPECT_EQ(detached_, 0);
  CuptiGate::Leave();
}

TEST_F(CuptiAttachmentTest, IsDetachedUnlessAnotherToolHasSubscribed) {
  ASSERT_TRUE(attachment_->Subscribe());
  attachment_->Detach(kTries, kLong);
  EXPECT_EQ(detached_, 1);
  EXPECT_FALSE(CuptiAttachment::attached());
  EXPECT_FALSE(subscribed_);

  ASSERT_TRUE(attachment_->Subscribe());
  ASSERT_TRUE(attachment_->GiveUp(kLong));
  held_by_another_tool_ = true;
  attachment_->Detach(kTries, kLong);
  EXPECT_EQ(detached_, 1);  // CUPTI is that tool's to detach
  EXPECT_FALSE(CuptiAttachment::attached());
}

TEST_F(CuptiAttachmentTest, StaysAttachedWhereCuptiCannotBeDetached) {
  ASSERT_TRUE(attachment_->Subscribe());
  refuses_to_detach_ = true;
  attachment_->Detach(kTries, kLong);
  EXPECT_TRUE(CuptiAttachment::attached());
  refuses_to_detach_ = false;
  attachment_->Detach(kTries, kLong);
  EXPECT_EQ(detached_, 1);
}

TEST_F(CuptiAttachmentTest, IsAttachedAnewWithCallbacks) {
  ASSERT_TRUE(attachment_->Subscribe());
  ASSERT_TRUE(attachment_->Enable());
  ASSERT_TRUE(attachment_->AttachAnew());
  EXPECT_EQ(detached_, 1);
  EXPECT_EQ(subscriptions_, 2);
  EXPECT_TRUE(enabled_);
}

// As many nodes as make up for attaching it again; a use begins the count anew.
TEST_F(CuptiAttachmentTest, IsWorthDetachingOnceEnoughNodesWereLaunched) {
  ASSERT_TRUE(attachment_->Subscribe());
  EXPECT_FALSE(CuptiAttachment::Launched(60'000));
  EXPECT_TRUE(CuptiAttachment::Launched(60'000));
  ASSERT_TRUE(attachment_->Enable());
  attachment_->Disable();
  EXPECT_FALSE(CuptiAttachment::Launched(60'000));
}

}  // namespace
}  // namespace reprise::device
