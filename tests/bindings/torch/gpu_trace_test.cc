// What torch tells of streams and events is told on, and what is recorded knows
// of it, on a process without a device.

#include "bindings/torch/observe/gpu_trace.h"

#include <ATen/ATen.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/torch/observe/no_interpreter.h"
#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/runtime/thread_state.h"
#include "tests/bindings/torch/fake_interpreter.h"

namespace reprise::bindings {
namespace {

using Calls = std::vector<std::string>;
using Handle = uintptr_t;

// As torch's sanitizer, and Python's callbacks.
class Sanitizer final : public NoInterpreter {
 public:
  mutable Calls calls;

  std::string name() const override { return "sanitizer"; }

  // clang-format off
  void trace_gpu_event_record(c10::DeviceType, Handle, Handle) const override { calls.push_back("record"); }
  void trace_gpu_event_wait(c10::DeviceType, Handle, Handle) const override { calls.push_back("wait"); }
  void trace_gpu_stream_synchronization(c10::DeviceType, Handle) const override { calls.push_back("synchronize stream"); }
  void trace_gpu_device_synchronization(c10::DeviceType) const override { calls.push_back("synchronize device"); }
  void trace_gpu_event_synchronization(c10::DeviceType, Handle) const override { calls.push_back("synchronize event"); }
  void trace_gpu_event_creation(c10::DeviceType, Handle) const override { calls.push_back("create event"); }
  void trace_gpu_event_deletion(c10::DeviceType, Handle) const override { calls.push_back("delete event"); }
  void trace_gpu_memory_allocation(c10::DeviceType, Handle) const override { calls.push_back("allocate"); }
  void trace_gpu_memory_deallocation(c10::DeviceType, Handle) const override { calls.push_back("free"); }
  void trace_gpu_stream_creation(c10::DeviceType, Handle) const override { calls.push_back("create stream"); }
  // clang-format on
};

Sanitizer& Before() {
  static auto* const leaked = new Sanitizer;
  return *leaked;
}

class GpuTraceTest : public ::testing::Test {
 protected:
  GpuTraceTest() {
    static const auto* const before = [] {
      const auto* const leaked = new c10::impl::PyInterpreter(&Before());
      c10::impl::GPUTrace::set_trace(leaked);
      return leaked;
    }();
    (void)before;
    WatchGpuTrace();
    Before().calls.clear();
  }
  static const c10::impl::PyInterpreterVTable& Torch() {
    return **c10::impl::GPUTrace::get_trace();
  }
  // What a program does to streams and events, in torch's words.
  static std::vector<std::function<void()>> Uses() {
    return {[] { Torch().trace_gpu_event_record(c10::kCUDA, 1, 2); },
            [] { Torch().trace_gpu_event_wait(c10::kCUDA, 1, 2); },
            [] { Torch().trace_gpu_stream_synchronization(c10::kCUDA, 2); },
            [] { Torch().trace_gpu_device_synchronization(c10::kCUDA); },
            [] { Torch().trace_gpu_event_synchronization(c10::kCUDA, 1); }};
  }
};

TEST_F(GpuTraceTest, StandsBeforeWhoeverWasThere) {
  EXPECT_EQ(Torch().name(), "reprise");
  for (const auto& use : Uses()) use();
  Torch().trace_gpu_event_creation(c10::kCUDA, 1);
  Torch().trace_gpu_event_deletion(c10::kCUDA, 1);
  Torch().trace_gpu_memory_allocation(c10::kCUDA, 1);
  Torch().trace_gpu_memory_deallocation(c10::kCUDA, 1);
  Torch().trace_gpu_stream_creation(c10::kCUDA, 1);
  EXPECT_EQ(Before().calls,
            (Calls{"record", "wait", "synchronize stream", "synchronize device",
                   "synchronize event", "create event", "delete event",
                   "allocate", "free", "create stream"}));
  WatchGpuTrace();  // once more does nothing
  Before().calls.clear();
  Uses()[0]();
  EXPECT_EQ(Before().calls, Calls{"record"});
}

// No call of an operator tells of them.
TEST_F(GpuTraceTest, WhatIsRecordedCannotHoldThem) {
  const at::Tensor x = at::ones({2});
  std::vector<std::string> reasons;
  for (const auto& use : Uses()) {
    auto recorder = TapeRecorder::Begin({.inputs = {x}});
    use();
    reasons.push_back(recorder->End(std::vector<at::Tensor>{x}, {}).reason);
  }
  EXPECT_EQ(reasons, (std::vector<std::string>{"an event is recorded",
                                               "the stream waits for an event",
                                               "the host waits for the stream",
                                               "the host waits for the device",
                                               "the host waits for an event"}));
  auto recorder = TapeRecorder::Begin({.inputs = {x}});
  Torch().trace_gpu_event_creation(c10::kCUDA, 1);
  EXPECT_NE(recorder->End(std::vector<at::Tensor>{x}, {}).tape, nullptr);
}

TEST_F(GpuTraceTest, WaitsInsideOfAnOpAreTheOps) {
  const auto uses = Uses();
  for (size_t i = 0; i < uses.size(); ++i) {
    const DepthGuard inside;
    t_thread_state.op.waited_inside = false;
    uses[i]();
    EXPECT_EQ(t_thread_state.op.waited_inside, i >= 2) << i;
  }
  t_thread_state.op.waited_inside = false;
  uses[2]();
  EXPECT_FALSE(t_thread_state.op.waited_inside) << "it is no op's";
}

// Last: Python's callbacks take the place of whoever was there.
TEST_F(GpuTraceTest, IsPassedOnToPythonOnceItIsWanted) {
  Sanitizer python;
  c10::impl::PyInterpreter interpreter(&python);
  fake_interpreter = &interpreter;
  Uses()[0]();
  EXPECT_TRUE(python.calls.empty());
  EXPECT_EQ(Before().calls, Calls{"record"});
  PassGpuTraceOn();
  Uses()[1]();
  EXPECT_EQ(python.calls, Calls{"wait"});
  EXPECT_EQ(Before().calls, Calls{"record"});
  fake_interpreter = nullptr;
  PassGpuTraceOn();  // nobody from now on
  Uses()[2]();
  EXPECT_EQ(python.calls, Calls{"wait"});
}

}  // namespace
}  // namespace reprise::bindings
