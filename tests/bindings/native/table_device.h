// A device whose graphs get their arguments by tables, without a compiler.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_TABLE_DEVICE_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_TABLE_DEVICE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/device.h"
#include "engine/batch/kernel_code.h"
#include "scheduler/patch_policy.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/engine/device/table_writer.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {

// For who goes over to other mechanisms as it replays: an update costs less
// than two calls.
inline constexpr scheduler::PatchCosts kCheapUpdates{.set = 1000,
                                                     .table = 1e9,
                                                     .table_byte = 0,
                                                     .stage = 10,
                                                     .update = 1500,
                                                     .update_node = 10,
                                                     .build_node = 100};

// Passes all on to `inner`; of the graphs of plain launches that it is to build
// some, or all, have a table, whatever is asked for. Thread-safe once all
// twins are there.
class TableDevice final : public Device {
 public:
  enum class Which : uint8_t { kNone, kEveryOther, kAll };

  TableDevice(std::unique_ptr<Device> inner, sim::SimulatedGpu& gpu,
              Which which)
      : inner_(std::move(inner)), gpu_(gpu), which_(which) {
    writer_code_ = CodeOf(gpu, "write", writer_);
  }

  // `kernel`, which outlives the device, has a twin from now on.
  void AddTwin(const engine::KernelCode* code,
               const sim::SimulatedGpu::Kernel& kernel) {
    auto twin = std::make_unique<sim::SimulatedGpu::Kernel>();
    twin->params = {{0, 8}};
    twin->run = [&kernel](const std::byte* image) {
      const std::byte* arguments = nullptr;
      std::memcpy(&arguments, image, sizeof arguments);
      kernel.run(arguments);
    };
    twins_[code] = CodeOf(gpu_, "twin of " + code->name(), *twin);
    kernels_.push_back(std::move(twin));
  }

  uint64_t tables() const { return tables_.load(std::memory_order_relaxed); }

  Context context() const override { return inner_->context(); }
  PriorityRange priorities() const override { return inner_->priorities(); }
  Result<CUstream> MakeStream(int32_t priority) override {
    return inner_->MakeStream(priority);
  }
  void EndStream(CUstream stream) override { inner_->EndStream(stream); }
  Status AdoptStream(CUstream stream) override {
    return inner_->AdoptStream(stream);
  }
  void ReleaseStream(CUstream stream) override {
    inner_->ReleaseStream(stream);
  }
  Status Synchronize(CUstream stream) override {
    return inner_->Synchronize(stream);
  }
  bool Capturing(CUstream stream) override { return inner_->Capturing(stream); }
  bool Busy(CUstream stream) override { return inner_->Busy(stream); }
  Result<CUevent> MakeEvent(Timing timing) override {
    return inner_->MakeEvent(timing);
  }
  Result<CUevent> Record(CUstream stream, Timing timing) override {
    return inner_->Record(stream, timing);
  }
  Result<bool> Passed(CUevent event) override { return inner_->Passed(event); }
  Status SynchronizeEvent(CUevent event) override {
    return inner_->SynchronizeEvent(event);
  }
  Result<std::chrono::nanoseconds> Elapsed(CUevent from, CUevent to) override {
    return inner_->Elapsed(from, to);
  }
  Status Wait(CUstream stream, CUevent event) override {
    return inner_->Wait(stream, event);
  }
  void EndEvent(CUevent event) override { inner_->EndEvent(event); }
  Result<void*> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  void Free(void* memory) override { inner_->Free(memory); }
  engine::MemoryHold HoldMemory() override { return inner_->HoldMemory(); }
  Status CopyIn(void* to, const void* from, size_t bytes,
                CUstream stream) override {
    return inner_->CopyIn(to, from, bytes, stream);
  }
  Status CopyOut(void* to, const void* from, size_t bytes,
                 CUstream stream) override {
    return inner_->CopyOut(to, from, bytes, stream);
  }
  Result<std::unique_ptr<HostBytes>> BeginCopyOut(const void* from,
                                                  size_t bytes,
                                                  CUstream stream) override {
    return inner_->BeginCopyOut(from, bytes, stream);
  }
  Status Admit(const engine::Node& node) override {
    return inner_->Admit(node);
  }
  Result<uint64_t> MostBlocks(const engine::Node& node) override {
    return inner_->MostBlocks(node);
  }
  Result<SuggestedBlock> SuggestBlock(engine::KernelCode& kernel,
                                      uint32_t shared_bytes) override {
    return inner_->SuggestBlock(kernel, shared_bytes);
  }
  Status Enqueue(const engine::Node& node, const std::byte* image,
                 CUstream stream) override {
    return inner_->Enqueue(node, image, stream);
  }
  Result<std::shared_ptr<engine::Captured>> Capture(
      const engine::CaptureFunction& work) override {
    return inner_->Capture(work);
  }
  Result<std::unique_ptr<engine::Graph>> Build(
      const std::vector<engine::Node>& nodes,
      const std::vector<std::byte>& image,
      const device::Dependencies& dependencies,
      const engine::Captures& captures, engine::Mechanism mechanism) override {
    const uint64_t number = builds_.fetch_add(1, std::memory_order_relaxed);
    if (which_ == Which::kAll ||
        (which_ == Which::kEveryOther && number % 2 == 1)) {
      GiveTable(nodes, mechanism);
    }
    return inner_->Build(nodes, image, dependencies, captures,
                         std::move(mechanism));
  }
  Result<DeviceInfo> Info() override { return inner_->Info(); }
  std::string architecture() const override { return inner_->architecture(); }
  void Adopt(CUfunction handle, engine::KernelCode& code) override {
    inner_->Adopt(handle, code);
  }
  Result<std::vector<device::ParamSpan>> ParamsOf(CUfunction handle) override {
    return inner_->ParamsOf(handle);
  }

 private:
  // As PatchService would choose the twins.
  void GiveTable(const std::vector<engine::Node>& nodes,
                 engine::Mechanism& mechanism) {
    std::vector<std::shared_ptr<engine::KernelCode>> twins(nodes.size());
    bool any = false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const engine::Node& node = nodes[i];
      if (node.kind >= engine::Node::Kind::kWait) return;  // no plain launches
      const auto twin = twins_.find(node.kernel);
      if (twin == twins_.end() || node.shared_bytes > 0 || node.clustered() ||
          node.cooperative != 0 || node.programmatic != 0) {
        continue;
      }
      twins[i] = twin->second;
      any = true;
    }
    if (!any) return;
    tables_.fetch_add(1, std::memory_order_relaxed);
    mechanism = {.patching = Patching::kTable,
                 .twins = std::move(twins),
                 .writer = writer_code_};
  }

  const std::unique_ptr<Device> inner_;
  const sim::SimulatedGpu& gpu_;
  const Which which_;
  std::vector<std::unique_ptr<sim::SimulatedGpu::Kernel>> kernels_;
  const sim::SimulatedGpu::Kernel writer_ = device::TableWriter<1024>();
  std::shared_ptr<engine::KernelCode> writer_code_;
  std::map<const engine::KernelCode*, std::shared_ptr<engine::KernelCode>>
      twins_;
  std::atomic<uint64_t> builds_{0};
  std::atomic<uint64_t> tables_{0};
};

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_TABLE_DEVICE_H_
