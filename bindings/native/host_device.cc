// Kernels as functions of the host, at once and in program order.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "bindings/native/device.h"
#include "bindings/native/device_query.h"
#include "bindings/native/guarded_call.h"
#include "bindings/native/host_arena.h"
#include "engine/batch/batch_event.h"

namespace reprise::native {
namespace {

uint64_t Word(const std::byte* image, size_t offset_bytes) {
  uint64_t word = 0;
  std::memcpy(&word, image + offset_bytes, sizeof word);
  return word;
}

// When it was recorded last. Thread-safe.
class HostEvent {
 public:
  static HostEvent& Of(CUevent event) {
    return *reinterpret_cast<HostEvent*>(event);
  }
  CUevent handle() { return reinterpret_cast<CUevent>(this); }

  void Record() {
    // Relaxed: BatchEvent says who sees it.
    at_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  }
  std::chrono::steady_clock::time_point at() const {
    return at_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::chrono::steady_clock::time_point> at_{};
};

Status RunKernel(const engine::Node& node, const std::byte* image) {
  Status done = GuardedCall([&]() -> Status {
    node.kernel->host()(node.config(), image);
    return {};
  });
  if (!done) {
    return tl::unexpected(
        done.error().In("kernel '" + node.kernel->name() + "'"));
  }
  return {};
}

Status Run(const engine::Node& node, const std::byte* image) {
  switch (node.kind) {
    case engine::Node::Kind::kKernel:
      return RunKernel(node, image);
    case engine::Node::Kind::kCopy:
      std::memcpy(reinterpret_cast<void*>(Word(image, 0)),
                  reinterpret_cast<const void*>(Word(image, 8)), node.width);
      return {};
    case engine::Node::Kind::kFill: {
      auto* to = reinterpret_cast<std::byte*>(Word(image, 0));
      const uint32_t value = engine::BatchRecord::ValueIn(image);
      for (uint64_t i = 0; i < node.width; ++i) {
        std::memcpy(to + i * node.element_bytes, &value, node.element_bytes);
      }
      return {};
    }
    case engine::Node::Kind::kRecord:
      HostEvent::Of(engine::BatchEvent::In(image).event()).Record();
      return {};
    case engine::Node::Kind::kWait:
    case engine::Node::Kind::kCapture:
      return {};  // all before it is done; captures are called by their graph
  }
  return {};
}

// There is nothing to capture: it is called each time.
struct HostWork final : engine::Captured {
  explicit HostWork(engine::CaptureFunction work) : work(std::move(work)) {}
  const engine::CaptureFunction work;
};

// As a graph of the driver's: it has copies of the arguments that it was given.
class HostGraph final : public engine::Graph {
 public:
  HostGraph(std::vector<engine::Node> nodes, std::vector<std::byte> image,
            engine::Captures captures)
      : nodes_(std::move(nodes)),
        image_(std::move(image)),
        captures_(std::move(captures)) {
    KeepKernels();
  }

  Status Set(size_t index, const std::byte* image) override {
    const engine::Node& node = nodes_[index];
    std::memcpy(image_.data() + node.image_begin, image, node.image_bytes);
    return {};
  }
  Status Apply() override { return {}; }
  Status Launch(CUstream) override {
    for (const engine::Node& node : nodes_) {
      const std::byte* image = image_.data() + node.image_begin;
      if (node.kind == engine::Node::Kind::kCapture) {
        const size_t number = engine::BatchRecord::CaptureIn(image);
        const auto& host = static_cast<const HostWork&>(*captures_[number]);
        REPRISE_RETURN_IF_ERROR(
            GuardedCall([&] { return host.work(nullptr); }));
      }
      REPRISE_RETURN_IF_ERROR(Run(node, image));
    }
    return {};
  }
  Status TakeOver(const std::vector<engine::Node>& nodes,
                  const std::vector<std::byte>& image) override {
    nodes_ = nodes;
    image_ = image;
    KeepKernels();
    return {};
  }

 private:
  void KeepKernels() {
    kernels_.clear();
    for (const engine::Node& node : nodes_) {
      if (node.kernel != nullptr) {
        kernels_.push_back(node.kernel->shared_from_this());
      }
    }
  }

  std::vector<engine::Node> nodes_;
  std::vector<std::byte> image_;
  const engine::Captures captures_;
  std::vector<std::shared_ptr<engine::KernelCode>> kernels_;
};

// Owns what was copied when it was made.
class BytesOnHost final : public HostBytes {
 public:
  explicit BytesOnHost(void* memory) : memory_(memory, &std::free) {}
  Result<bool> Arrived() override { return true; }
  Result<const std::byte*> Wait() override {
    return static_cast<const std::byte*>(memory_.get());
  }

 private:
  const std::unique_ptr<void, decltype(&std::free)> memory_;
};

class HostDevice final : public Device {
 public:
  PriorityRange priorities() const override {
    return {limits_.priority_least, limits_.priority_greatest};
  }
  Result<CUstream> MakeStream(int32_t priority) override {
    REPRISE_RETURN_IF_ERROR(engine::AdmitPriority(limits_, priority));
    return CUstream{};
  }
  void EndStream(CUstream) override {}
  Status AdoptStream(CUstream) override {
    return base::Fail(Code::kInvalidArgument,
                      "a host runtime has no streams to adopt: make one with "
                      "CreateStream");
  }
  void ReleaseStream(CUstream) override {}
  Status Synchronize(CUstream) override { return {}; }
  bool Capturing(CUstream) override { return false; }
  bool Busy(CUstream) override { return false; }
  Result<CUevent> MakeEvent(Timing) override {
    return std::make_unique<HostEvent>().release()->handle();
  }
  Result<CUevent> Record(CUstream, Timing timing) override {
    REPRISE_ASSIGN_OR_RETURN(const CUevent event, MakeEvent(timing));
    HostEvent::Of(event).Record();
    return event;
  }
  Status Wait(CUstream, CUevent) override { return {}; }
  Result<bool> Passed(CUevent) override { return true; }
  Status SynchronizeEvent(CUevent) override { return {}; }
  Result<std::chrono::nanoseconds> Elapsed(CUevent from, CUevent to) override {
    return HostEvent::Of(to).at() - HostEvent::Of(from).at();
  }
  void EndEvent(CUevent event) override {
    const std::unique_ptr<HostEvent> ended(&HostEvent::Of(event));
  }

  Result<void*> Allocate(size_t bytes) override {
    return HostArena::Get().Allocate(bytes, context_);
  }
  void Free(void* memory) override { HostArena::Get().Free(memory); }
  engine::MemoryHold HoldMemory() override { return nullptr; }
  Status AdmitMemory(const void* begin, uint64_t bytes) override {
    return HostArena::Get().Check(begin, bytes, context_);
  }
  Status CopyIn(void* to, const void* from, size_t bytes, CUstream) override {
    return Copy(to, from, bytes, /*of_host=*/from);
  }
  Status CopyOut(void* to, const void* from, size_t bytes, CUstream) override {
    return Copy(to, from, bytes, /*of_host=*/to);
  }
  Result<std::unique_ptr<HostBytes>> BeginCopyOut(const void* from,
                                                  size_t bytes,
                                                  CUstream stream) override {
    void* memory = std::malloc(bytes > 0 ? bytes : 1);
    if (memory == nullptr) {
      return base::Fail(Code::kResourceExhausted,
                        "the host has no " + std::to_string(bytes) + " bytes");
    }
    auto copy = std::make_unique<BytesOnHost>(memory);
    REPRISE_RETURN_IF_ERROR(CopyOut(memory, from, bytes, stream));
    return copy;
  }

  Status Admit(const engine::Node& node) override {
    return engine::Admit(*occupancy_, limits_, node);
  }
  Result<uint64_t> MostBlocks(const engine::Node& node) override {
    REPRISE_RETURN_IF_ERROR(Admit(node));
    return occupancy_->MostBlocks(node);
  }
  Result<SuggestedBlock> SuggestBlock(engine::KernelCode& kernel,
                                      uint32_t shared_bytes) override {
    return native::SuggestBlock(*occupancy_, limits_, kernel, shared_bytes);
  }
  Status Enqueue(const engine::Node& node, const std::byte* image,
                 CUstream) override {
    return Run(node, image);
  }
  Result<std::shared_ptr<engine::Captured>> Capture(
      const engine::CaptureFunction& work) override {
    return std::make_shared<HostWork>(work);
  }
  Result<std::unique_ptr<engine::Graph>> Build(
      const std::vector<engine::Node>& nodes,
      const std::vector<std::byte>& image, const device::Dependencies&,
      const engine::Captures& captures, engine::Mechanism) override {
    return std::make_unique<HostGraph>(nodes, image, captures);
  }

  Result<DeviceInfo> Info() override { return HostInfo(); }
  std::string architecture() const override { return {}; }
  void Adopt(CUfunction, engine::KernelCode& code) override {
    code.Fail(
        Error(Code::kUnavailable, "a host runtime adopts no kernels: make '" +
                                      code.name() + "' with HostKernel"));
  }
  Result<std::vector<device::ParamSpan>> ParamsOf(CUfunction) override {
    return base::Fail(Code::kUnavailable,
                      "a host runtime adopts no kernels: make them with "
                      "HostKernel");
  }
  Context context() const override { return {nullptr, context_}; }

 private:
  static Status Copy(void* to, const void* from, size_t bytes,
                     const void* of_host) {
    if (bytes == 0) return {};  // an empty buffer's may be null
    if (HostArena::Get().Has(of_host)) {
      return base::Fail(Code::kInvalidArgument,
                        "the host's end of the copy is in a buffer of the "
                        "device: Batch::Copy copies within the device");
    }
    std::memcpy(to, from, bytes);
    return {};
  }
  // One that no other device of the process has had.
  static CUcontext NewContext() {
    static std::atomic<uintptr_t> last{0};  // relaxed: it orders nothing
    return reinterpret_cast<CUcontext>(
        last.fetch_add(1, std::memory_order_relaxed) + 1);
  }

  const CUcontext context_ = NewContext();
  const engine::LaunchLimits limits_ = engine::LaunchLimits::OfHost();
  const std::unique_ptr<engine::Occupancy> occupancy_ =
      engine::MakeHostOccupancy();
};

}  // namespace

std::unique_ptr<Device> MakeHostDevice() {
  return std::make_unique<HostDevice>();
}

}  // namespace reprise::native
