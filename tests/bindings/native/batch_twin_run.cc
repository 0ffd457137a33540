#include "tests/bindings/native/batch_twin_run.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/native/memory_pool.h"
#include "bindings/native/reprise.h"
#include "bindings/native/runtime_core.h"
#include "bindings/native/stream_core.h"
#include "tests/bindings/native/batch_kernels.h"
#include "tests/bindings/native/batch_reference.h"
#include "tests/bindings/native/simulated_runtime.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/simulated_gpu.h"

namespace reprise::native {
namespace {

using Kind = Step::Kind;
using What = Action::What;
using sim::SimulatedGpu;

constexpr engine::LaunchLimits kLimits{
    .shared_bytes = 100 << 10, .priority_least = 0, .priority_greatest = -5};

using Words = std::array<uint32_t, kWords>;

LaunchConfig ConfigOf(const Step& step) {
  LaunchConfig config{.grid = {BlocksOf(step)}};
  switch (step.attribute) {
    case Step::kNoAttribute:
      break;
    case Step::kProgrammatic:
      config.programmatic = true;
      break;
    case Step::kCooperative:
      config.cooperative = true;
      break;
    case Step::kCluster:
      config.cluster = {2};
      break;
    case Step::kPriority:
      config.priority = -3;
      break;
    case Step::kSharedMemory:
      config.shared_bytes = 1024;
      break;
    case Step::kMuchSharedMemory:
      config.shared_bytes = 60 << 10;
      break;
  }
  return config;
}

class Runner {
 public:
  Runner(const Program& program, const RunOptions& options)
      : program_(program), options_(options), fault_(gpu_, options.fault) {
    gpu_.refuses_updates = options.refuses_updates;
    gpu_.reuses_pool_memory = true;
    gpu_.order.emplace(options.seed);
    gpu_.streams.SetPace(options.pace, options.seed);
    std::unique_ptr<MemoryPool> pool;
    if (options.pool) pool = *MemoryPool::Create(gpu_.driver, 0, 1 << 20);
    auto device = std::make_unique<TableDevice>(
        MakeCudaDevice(gpu_.driver, gpu_.context, kLimits, std::move(pool)),
        gpu_, options.tables);
    device_ = device.get();
    runtime_ = std::make_shared<RuntimeCore>(
        std::move(device),
        RuntimeOptions{.patching = options.patching,
                       .plans_per_stream = options.plans_per_stream,
                       .cache_dir = ""},
        RuntimeCore::Stubs{
            .measured = scheduler::PatchMeasurement{.costs = kCheapUpdates},
            .builds = &builds_});
    AddKernel("mix", kernels_.mix);
    AddKernel("blend", kernels_.blend);
    AddKernel("weave", kernels_.weave);
    AddKernel("stamp", kernels_.stamp);
    for (size_t s = 0; s < kStreams; ++s) MakeStream(s);
    for (size_t s = 0; s < kStreams; ++s) {
      points_.push_back(*Stream(streams_[s]).Record());
    }
    for (uint32_t b = 0; b < kBuffers; ++b) {
      buffers_.push_back(*Allocate());
      Reset(b);
    }
  }

  RunResult Run() {
    gpu_.FailAfter(options_.fail_after);
    for (at_ = 0; at_ < program_.actions.size(); ++at_) {
      if (at_ == program_.actions.size() * 3 / 4) by_themselves_ = Launches();
      failed_before_ = gpu_.failed;
      Do(program_.actions[at_]);
      if (!result_.failure.empty()) break;
    }
    result_.launched_by_themselves = Launches() - by_themselves_;
    for (uint32_t b = 0; b < kBuffers && result_.failure.empty(); ++b) {
      failed_before_ = gpu_.failed;
      Look(b);
    }
    for (const auto& stream : streams_) Count(*stream);
    result_.tables = device_->tables();
    result_.updates = static_cast<uint64_t>(gpu_.updates);
    result_.takeovers = static_cast<uint64_t>(gpu_.takeovers);
    result_.failed_call = gpu_.failed;
    End();
    return std::move(result_);
  }

 private:
  struct PlanSlot {
    std::optional<Plan> plan;
    size_t stream = 0;
    bool shares = false;
    std::vector<Step> steps;
    std::optional<Event> point;  // that it records
  };

  void AddKernel(const std::string& name, const SimulatedGpu::Kernel& kernel) {
    codes_[name] = CodeOf(gpu_, name, kernel);
    device_->AddTwin(codes_[name].get(), kernel);
  }

  void MakeStream(size_t s) {
    // The second one is the program's own.
    if (s == 1) {
      if (!device_->AdoptStream(gpu_.stream)) {
        ASSERT_TRUE(device_->AdoptStream(gpu_.stream));
      }
      streams_[s] =
          std::make_shared<StreamCore>(runtime_, gpu_.stream, /*owned=*/false);
      return;
    }
    Result<CUstream> made = device_->MakeStream(0);
    if (!made) made = device_->MakeStream(0);
    ASSERT_TRUE(made) << made.error().message();
    streams_[s] = std::make_shared<StreamCore>(runtime_, *made, /*owned=*/true);
  }

  Result<Buffer<uint32_t>> Allocate() {
    REPRISE_ASSIGN_OR_RETURN(void* memory,
                             device_->Allocate(kWords * sizeof(uint32_t)));
    return Buffer<uint32_t>(runtime_, static_cast<uint32_t*>(memory), kWords);
  }

  // The same new words on both sides. Nothing may be in flight.
  void Reset(uint32_t buffer) {
    for (uint32_t i = 0; i < kWords; ++i) {
      plain_[buffer][i] = ++written_ * 2654435761u;
    }
    std::memcpy(buffers_[buffer].data(), plain_[buffer].data(),
                sizeof plain_[buffer]);
  }

  void Fail(const std::string& what) {
    if (!result_.failure.empty()) return;
    result_.failure = "action " + std::to_string(at_) + ": " + what;
  }

  // True if it succeeded. One that failed must have met the driver's failure,
  // and say so; what has become of memory then is nobody's guess, so both sides
  // begin anew.
  bool Accept(const Status& status) {
    if (status) return true;
    if (gpu_.failed.empty() || gpu_.failed == failed_before_) {
      Fail("fails where nothing failed: " + status.error().message());
    } else if (status.error().message().find("SIMULATED") ==
               std::string::npos) {
      Fail("does not say what failed: " + status.error().message());
    }
    ++result_.told;
    gpu_.streams.SynchronizeAll();
    for (uint32_t b = 0; b < kBuffers; ++b) Reset(b);
    return false;
  }
  template <typename T>
  bool Accept(const Result<T>& result) {
    return Accept(result ? Status() : Status(tl::unexpected(result.error())));
  }

  // --- Launches

  uint32_t* On(const Range& range) {
    return buffers_[range.buffer].data() + range.begin();
  }
  uint32_t* Plain(const Range& range) {
    return plain_[range.buffer].data() + range.begin();
  }

  static void Move(Range& range, uint32_t shift) {
    const uint32_t own = kStreams * kOwnBuffers;
    const uint32_t count = range.buffer < own ? kOwnBuffers : kSharedBuffers;
    const uint32_t first =
        range.buffer < own ? range.buffer / kOwnBuffers * kOwnBuffers : own;
    range.buffer = first + (range.buffer - first + shift) % count;
  }

  static std::vector<Step> Changed(std::vector<Step> steps,
                                   const Change& change) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if ((change.mask >> i % 32 & 1) != 0) steps[i].by += change.by;
      if ((change.moved >> i % 32 & 1) != 0) {
        Move(steps[i].to, change.shift);
        Move(steps[i].from, change.shift);
      }
      steps[i].blocks += change.blocks;
    }
    return steps;
  }

  // By the driver, on a stream of the batch's or one that is captured.
  Status Library(const Step& step, CUstream stream) {
    CUlaunchConfig config{};
    config.gridDimX = BlocksOf(step);
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    uint32_t* to = On(step.to);
    uint32_t* from = On(step.from);
    uint32_t words = WordsOf(step);
    uint32_t by = step.by;
    void* params[] = {&to, &from, &words, &by};
    REPRISE_CU(
        gpu_.driver,
        cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(&kernels_.mix),
                         params, nullptr));
    REPRISE_CU(gpu_.driver,
               cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(from),
                                 reinterpret_cast<CUdeviceptr>(to),
                                 words * sizeof(uint32_t) / 2, stream));
    return {};
  }

  // False if a record could not be had.
  bool Put(Batch& batch, size_t stream, const std::vector<Step>& steps,
           std::optional<Event>& point) {
    for (const Step& step : steps) {
      if (step.kind == Kind::kWait) {
        batch.Wait(points_[1 - stream]);
        continue;
      }
      if (step.kind == Kind::kRecord) {
        Result<Event> recorded = batch.Record();
        if (!Accept(recorded)) return false;
        point = *recorded;
        continue;
      }
      PutLaunch(batch, step);
    }
    return true;
  }

  void PutLaunch(Batch& batch, const Step& step) {
    const LaunchConfig config = ConfigOf(step);
    uint32_t* to = On(step.to);
    uint32_t* from = On(step.from);
    const uint32_t words = WordsOf(step);
    const uint32_t filled = step.to.words();
    switch (step.kind) {
      case Kind::kMix:
        batch.Launch(Kernel<BatchKernels::Mix>(codes_["mix"]), config,
                     InOut(to, words), In(from, words), words, step.by);
        break;
      case Kind::kBlend:
        batch.Launch(Kernel<BatchKernels::Mix>(codes_["blend"]), config,
                     InOut(to, words), In(from, words), words, step.by);
        break;
      case Kind::kWeave:
        batch.Launch(Kernel<BatchKernels::Weave>(codes_["weave"]), config,
                     InOut(to, words), InOut(from, words), words, ShortOf(step),
                     WideOf(step));
        break;
      case Kind::kStamp:
        batch.Launch(Kernel<BatchKernels::Stamp>(codes_["stamp"]), config,
                     Out(to, words), ByteOf(step), words, step.by);
        break;
      case Kind::kPlain:
        batch.Launch(Kernel<BatchKernels::Mix>(codes_["mix"]), config, to, from,
                     words, step.by);
        break;
      case Kind::kAny: {
        const Argument arguments[] = {Argument(to), Argument(from),
                                      Argument(words), Argument(step.by)};
        batch.Launch(AnyKernel(codes_["mix"]), config, arguments);
        break;
      }
      case Kind::kCopy:
        batch.Copy(Out(to, words), In(from, words));
        break;
      case Kind::kFill1:
        batch.Fill(Out(reinterpret_cast<uint8_t*>(to), 4 * filled),
                   ByteOf(step));
        break;
      case Kind::kFill2:
        batch.Fill(Out(reinterpret_cast<uint16_t*>(to), 2 * filled),
                   ShortOf(step));
        break;
      case Kind::kFill4:
        batch.Fill(Out(to, filled), step.by);
        break;
      case Kind::kCapture:
        batch.Capture(
            CaptureKey(to, from, words, step.by, BlocksOf(step)),
            [this, step](CUstream stream) { return Library(step, stream); });
        break;
      case Kind::kUnknown:
        batch.Capture(
            [this, step](CUstream stream) { return Library(step, stream); });
        break;
      case Kind::kWait:
      case Kind::kRecord:
        break;
    }
  }

  void DoAllPlainly(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      DoPlainly(step, Plain(step.to), Plain(step.from));
    }
  }

  // What the streams share was used there last, up to that point.
  void Shared(size_t stream, const std::optional<Event>& point) {
    last_sharer_ = stream;
    if (point.has_value()) points_[stream] = *point;
  }

  // --- Actions

  void Submit(const Shape& shape, const Change& change) {
    const std::vector<Step> steps = Changed(shape.steps, change);
    Batch batch(streams_[shape.stream]);
    std::optional<Event> point;
    if (!Put(batch, shape.stream, steps, point)) return;
    if (!Accept(batch.Submit())) return;
    DoAllPlainly(steps);
    if (shape.shares) Shared(shape.stream, point);
  }

  void Drop(const Shape& shape) {
    Batch batch(streams_[shape.stream]);
    std::optional<Event> point;
    Put(batch, shape.stream, shape.steps, point);
  }

  void Mistake(const Shape& shape) {
    Batch batch(streams_[shape.stream]);
    std::optional<Event> point;
    if (!Put(batch, shape.stream, shape.steps, point)) return;
    batch.Launch(Kernel<BatchKernels::Mix>(codes_["mix"]), {.grid = {0}},
                 On({}), On({}), 1u, 1u);
    const Status submitted = batch.Submit();
    if (submitted || submitted.error().code() != Code::kInvalidArgument) {
      Fail("a grid of zero is not refused");
    }
  }

  void Prepare(PlanSlot& slot, const Shape& shape, const Change& change) {
    slot = {};
    slot.stream = shape.stream;
    slot.shares = shape.shares;
    slot.steps = Changed(shape.steps, change);
    Batch batch(streams_[shape.stream]);
    if (slot.steps.empty() ||
        !Put(batch, shape.stream, slot.steps, slot.point)) {
      return;
    }
    Result<Plan> plan = batch.Prepare();
    if (Accept(plan)) slot.plan = *std::move(plan);
  }

  static bool IsKernel(Kind kind) { return kind < Kind::kCopy; }

  void Set(PlanSlot& slot, const Change& change) {
    if (!slot.plan.has_value()) return;
    // What was captured, and a fill's value, stay.
    for (const Step& step : slot.steps) {
      if (step.kind == Kind::kCapture || step.kind == Kind::kUnknown) return;
    }
    const std::vector<Step> steps = Changed(slot.steps, change);
    for (size_t i = 0; i < steps.size(); ++i) {
      SetOne(slot, static_cast<uint32_t>(i), steps[i]);
    }
  }

  void SetOne(PlanSlot& slot, uint32_t i, const Step& step) {
    Plan& plan = *slot.plan;
    Step& kept = slot.steps[i];
    const auto set = [&](size_t argument, const auto& value) {
      const Status done = plan.Set(i, argument, value);
      if (!done) Fail("Plan::Set: " + done.error().message());
    };
    if (step.kind >= Kind::kWait) return;
    set(0, On(step.to));
    kept.to = step.to;
    if (step.kind == Kind::kCopy) set(1, On(step.from));
    kept.from = step.from;
    if (!IsKernel(step.kind)) return;
    kept.by = step.by;
    if (step.kind == Kind::kStamp) {
      set(1, ByteOf(step));
      set(3, step.by);
      return;
    }
    set(1, On(step.from));
    if (step.kind == Kind::kWeave) {
      set(3, ShortOf(step));
      set(4, WideOf(step));
    } else {
      set(3, step.by);
    }
  }

  // Its arguments name the buffers of now.
  void Launch(PlanSlot& slot) {
    if (!slot.plan.has_value()) return;
    for (size_t i = 0; i < slot.steps.size(); ++i) {
      if (slot.steps[i].kind == Kind::kWait) {
        const Status set = slot.plan->SetEvent(static_cast<uint32_t>(i),
                                               points_[1 - slot.stream]);
        if (!set) Fail("Plan::SetEvent: " + set.error().message());
      }
    }
    if (!Accept(slot.plan->Launch())) return;
    ++result_.plan_launches;
    DoAllPlainly(slot.steps);
    if (slot.shares) Shared(slot.stream, slot.point);
  }

  void Replace(uint32_t buffer) {
    buffers_[buffer] = {};
    Result<Buffer<uint32_t>> made = Allocate();
    const Status first = made ? Status() : tl::unexpected(made.error());
    if (!made) made = Allocate();
    if (!made) return Fail("no memory: " + made.error().message());
    buffers_[buffer] = *std::move(made);
    for (PlanSlot& slot : slots_) Rename(slot, buffer);
    Words words;
    for (uint32_t& word : words) word = ++written_ * 2654435761u;
    plain_[buffer] = words;
    if (!Accept(first)) return;
    const Stream stream(streams_[StreamOf(buffer)]);
    if (!Accept(stream.CopyToDevice(buffers_[buffer].data(), words.data(),
                                    words.size()))) {
      return;
    }
    if (IsOwn(buffer)) return;
    const Result<Event> copied = stream.Record();
    if (Accept(copied)) points_[last_sharer_] = *copied;
  }

  // Plans that name memory that is gone get the new one, or end.
  void Rename(PlanSlot& slot, uint32_t buffer) {
    if (!slot.plan.has_value()) return;
    for (size_t i = 0; i < slot.steps.size(); ++i) {
      const Step step = slot.steps[i];
      if (step.to.buffer != buffer && step.from.buffer != buffer) continue;
      if (step.kind == Kind::kCapture || step.kind == Kind::kUnknown) {
        slot = {};
        return;
      }
      SetOne(slot, static_cast<uint32_t>(i), step);
    }
  }

  static bool IsOwn(uint32_t buffer) { return buffer < kStreams * kOwnBuffers; }
  size_t StreamOf(uint32_t buffer) const {
    return IsOwn(buffer) ? buffer / kOwnBuffers : last_sharer_;
  }

  void Look(uint32_t buffer) {
    if (!Accept(Stream(streams_[StreamOf(buffer)])
                    .CopyToHost(seen_.data(), buffers_[buffer].data(),
                                seen_.size()))) {
      return;
    }
    for (uint32_t i = 0; i < kWords; ++i) {
      if (seen_[i] == plain_[buffer][i]) continue;
      return Fail("word " + std::to_string(i) + " of b" +
                  std::to_string(buffer) + " is " + std::to_string(seen_[i]) +
                  ", not " + std::to_string(plain_[buffer][i]));
    }
  }

  void Order(size_t stream) {
    const Result<Event> event = Stream(streams_[1 - stream]).Record();
    if (Accept(event)) Accept(Stream(streams_[stream]).Wait(*event));
  }

  void AskStats(size_t stream) {
    const StreamStats stats = streams_[stream]->batches().stats();
    size_t held = 0;
    for (const PlanReport& plan : streams_[stream]->batches().plans()) {
      if (plan.why_not.empty() || plan.replays > 0) ++held;
    }
    if (stats.plans > options_.plans_per_stream || held > stats.plans) {
      Fail("holds " + std::to_string(stats.plans) + " plans, tells of " +
           std::to_string(held));
    }
  }

  void NewStream(size_t stream) {
    for (PlanSlot& slot : slots_) {
      if (slot.stream == stream) slot = {};
    }
    Count(*streams_[stream]);
    streams_[stream].reset();
    MakeStream(stream);
  }

  void Do(const Action& action) {
    const Shape& shape = program_.shapes[action.shape];
    switch (action.what) {
      case What::kSubmit:
        return Submit(shape, action.change);
      case What::kDrop:
        return Drop(shape);
      case What::kMistake:
        return Mistake(shape);
      case What::kPrepare:
        return Prepare(slots_[action.slot], shape, action.change);
      case What::kSet:
        return Set(slots_[action.slot], action.change);
      case What::kLaunch:
        return Launch(slots_[action.slot]);
      case What::kEndPlan:
        slots_[action.slot] = {};
        return;
      case What::kBuild:
        for (size_t i = 0; i < action.count; ++i) builds_.RunOne();
        return;
      case What::kBuildAll:
        builds_.RunAll();
        return;
      case What::kReplace:
        return Replace(action.buffer);
      case What::kLook:
        return Look(action.buffer);
      case What::kAdvance:
        return gpu_.streams.Advance(streams_[action.stream]->stream(),
                                    action.count);
      case What::kOrder:
        return Order(action.stream);
      case What::kStats:
        return AskStats(action.stream);
      case What::kNewStream:
        return NewStream(action.stream);
    }
  }

  uint64_t Launches() const {
    uint64_t launches = 0;
    for (const auto& stream : streams_)
      launches += stream->batches().stats().launches;
    return launches;
  }

  void Count(StreamCore& stream) {
    const StreamStats stats = stream.batches().stats();
    result_.stats.batches += stats.batches;
    result_.stats.replayed += stats.replayed;
    result_.stats.launches += stats.launches;
    result_.stats.patched += stats.patched;
    result_.stats.built += stats.built;
    result_.stats.taken_over += stats.taken_over;
    result_.stats.refused += stats.refused;
    result_.stats.plans += stats.plans;
  }

  void End() {
    for (PlanSlot& slot : slots_) slot = {};
    points_.clear();
    buffers_.clear();
    for (auto& stream : streams_) stream.reset();
    builds_.RunAll();
    codes_.clear();
    runtime_.reset();
    gpu_.streams.SynchronizeAll();
    if (gpu_.objects() != 0) {
      Fail(std::to_string(gpu_.objects()) + " objects are left over");
    }
  }

  const Program& program_;
  const RunOptions options_;
  SimulatedKernels kernels_;
  SimulatedGpu gpu_;
  sim::PlantedFault fault_;
  TableDevice* device_ = nullptr;  // the runtime's
  std::shared_ptr<RuntimeCore> runtime_;
  base::ManualTaskRunner builds_;
  std::map<std::string, std::shared_ptr<engine::KernelCode>> codes_;
  std::array<std::shared_ptr<StreamCore>, kStreams> streams_;
  std::vector<Event> points_;  // of streams: the last for what they share
  size_t last_sharer_ = 0;
  std::vector<Buffer<uint32_t>> buffers_;
  std::array<Words, kBuffers> plain_{};
  Words seen_{};
  std::array<PlanSlot, Action::kSlots> slots_;
  uint32_t written_ = 0;
  size_t at_ = 0;
  uint64_t by_themselves_ = 0;
  std::string failed_before_;
  RunResult result_;
};

}  // namespace

RunResult RunBeside(const Program& program, const RunOptions& options) {
  return Runner(program, options).Run();
}

}  // namespace reprise::native
