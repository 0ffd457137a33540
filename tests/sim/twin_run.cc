#include "tests/sim/twin_run.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/cuda_backend.h"
#include "engine/device/launch_recorder.h"
#include "engine/host_backend.h"
#include "kernels/compare.h"
#include "kernels/nvrtc.h"
#include "scheduler/stream_session.h"
#include "tests/sim/interpreter.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_memory.h"
#include "tests/sim/simulated_nvrtc.h"
#include "tests/sim/simulated_program.h"
#include "tests/sim/stream_ops.h"

namespace reprise::sim {
namespace {

// What all programs share.
struct Device {
  explicit Device(const RunOptions& options)
      : plans(options.plan_budget_bytes) {
    gpu.accessible = [this](uint64_t address, size_t size_bytes) {
      return memory.Accessible(address, size_bytes);
    };
    times.seed(options.seed);
    // The host executor works on the thread that launches.
    if (options.executes == Executes::kOnDevice) {
      gpu.streams.SetPace(options.pace, options.seed);
    }
  }

  // As the allocator of a device does; that of the host tells nobody.
  void GiveBack() {
    for (scheduler::StreamSession* session : told) session->BeforeMemoryGoes();
    gpu.streams.SynchronizeAll();
    memory.GiveBack();
  }

  // As a Runtime has it, but that the kernels are functions.
  base::Result<kernels::DeviceCompare*> Compare() {
    if (compiled == nullptr) {
      REPRISE_ASSIGN_OR_RETURN(const kernels::Nvrtc made,
                               kernels::Nvrtc::Create(nvrtc.entries));
      REPRISE_ASSIGN_OR_RETURN(
          compiled, kernels::DeviceCompare::Create(gpu.driver, 0, made));
    }
    return &compare;
  }

  std::vector<scheduler::StreamSession*> told;
  SimulatedGpu gpu;
  SimulatedMemory memory{size_t{3} << 20};
  ModelKernels kernels;
  SimulatedCompare compare{&gpu.streams};
  SimulatedNvrtc nvrtc;
  std::unique_ptr<kernels::DeviceCompare> compiled;
  std::unique_ptr<device::LaunchRecorder> recorder =
      device::LaunchRecorder::Create(gpu.driver, gpu.cupti);
  std::atomic<bool> skip_launches{false};
  scheduler::PlanCache plans;
  BackendCounts counts;
  base::ManualTaskRunner builds;
  base::ManualClock clock;
  std::mt19937 times;  // that ops take by the clock
};

// One program on one stream, run through a session and plainly, line by line.
class Twin {
 public:
  Twin(const Program& program, const RunOptions& options, Device* device,
       CUstream stream)
      : program_(program),
        options_(options),
        device_(*device),
        stream_(stream) {
    ops_.emplace(StreamOps::Parts{&device->gpu, &device->kernels,
                                  &device->memory, nullptr, nullptr, stream,
                                  options.fault});
    Take(0);
    real_.emplace(&program_, &*ops_);
    plain_.emplace(&program_, &plain_ops_);
  }

  // Does one line; false after the last one of the last pass.
  bool Step() {
    if (preamble_ < program_.preamble.size()) {
      Execute(program_.preamble[preamble_++], 0);
      return true;
    }
    if (pass_ == program_.passes.size()) return false;
    const Pass& pass = program_.passes[pass_];
    if (!in_pass_) BeginPass(pass);
    const auto line = static_cast<int>(line_);
    for (const Event& event : pass.events) {
      if (event.at == line) Happen(event);
    }
    if (line == pass.builds_at) device_.builds.RunAll();
    if (line == pass.evicts_at) device_.plans.Trim(0);
    if (line == pass.frees_at) {
      real_->Free(pass.frees);
      plain_->Free(pass.frees);
    }
    if (line == pass.gives_back_at) device_.GiveBack();
    if (line == pass.raises_at) {
      Raise();
      EndPass(pass);
    } else if (line == pass.leaves_at) {
      for (const Line& other : program_.detour) Execute(other, 0);
      EndPass(pass);
    } else if (line_ == program_.body.size()) {
      EndPass(pass);
    } else {
      Execute(program_.body[line_], line == pass.changes_at ? 5 : 0);
      ++line_;
    }
    return true;
  }

  // The host looks at everything that is live.
  void Look() {
    real_->Look();
    plain_->Look();
    Compare();
  }

  void Compare() {
    device_.gpu.streams.Synchronize(stream_);
    const std::vector<const StreamTensor*> real = real_->Live();
    const std::vector<const PlainOps::Tensor*> plain = plain_->Live();
    if (real.size() != plain.size()) return Fail("holds other tensors");
    for (size_t i = 0; i < real.size(); ++i) {
      if ((real[i] == nullptr) != (plain[i] == nullptr)) {
        return Fail("has another variable set");
      }
      if (real[i] == nullptr) continue;
      const std::vector<uint32_t> expected = plain[i]->values();
      if (real[i]->length() != expected.size() ||
          std::memcmp(reinterpret_cast<const void*>(real[i]->address()),
                      expected.data(), 4 * expected.size()) != 0) {
        const bool held = i >= program_.variables();
        return Fail(
            "other bytes in " +
            (held ? "held tensor " + std::to_string(i - program_.variables())
                  : program_.Name(static_cast<Variable>(i))));
      }
    }
  }

  // Ends the sessions; the program's tensors live on.
  void EndSessions(RunResult& result) {
    for (Slot& slot : slots_) {
      if (slot.session == nullptr) continue;
      slot.session->Settle();
      Collect(*slot.session);
      std::erase(device_.told, slot.session.get());
      slot.session.reset();
    }
#define REPRISE_ADD(name, meaning) result.stats.name += stats_.name;
    REPRISE_STATS(REPRISE_ADD)
#undef REPRISE_ADD
    result.complaints.insert(result.complaints.end(), complaints_.begin(),
                             complaints_.end());
    result.unfollowed_ops += unfollowed_ops_;
    result.ops += ops_->ops();
  }

  const std::string& failure() const { return failure_; }

 private:
  // As a process has several runtimes, one for each set of options.
  struct Slot {
    std::unique_ptr<scheduler::StreamSession> session;
    StreamFrontend* frontend = nullptr;  // the session's
  };

  // From now on ops go through the session of that slot.
  void Take(size_t slot) {
    if (slots_[slot].session == nullptr) {
      RunOptions options = options_;
      if (slot == 1) {
        options.validate_share = options_.validate_share == 0 ? 0.5 : 0;
        options.max_instances = 3 - options_.max_instances;
        ++options.segment_launches;
      }
      MakeSession(options, slots_[slot]);
    } else {
      slots_[slot].session->Resume();
    }
    slot_ = slot;
    ops_->Use(slots_[slot].frontend, slots_[slot].session.get());
  }
  scheduler::StreamSession& session() { return *slots_[slot_].session; }

  void MakeSession(const RunOptions& options, Slot& slot) {
    auto frontend = std::make_unique<StreamFrontend>(
        &device_.gpu, &device_.memory, stream_, options.fault);
    slot.frontend = frontend.get();
    scheduler::StreamSession::Parts parts;
    parts.options.validate_share = options.validate_share;
    parts.options.max_arena_bytes = size_t{256} << 10;
    parts.options.max_instances = options.max_instances;
    parts.policy = options.policy;
    parts.clock = &device_.clock;
    std::unique_ptr<engine::Backend> backend;
    if (options.executes == Executes::kOnDevice) {
      engine::CudaContext context;
      context.driver = &device_.gpu.driver;
      context.recorder = device_.recorder.get();
      context.stream = stream_;
      context.context = device_.gpu.context;
      context.skip_launches = &device_.skip_launches;
      engine::CudaBackend::Options how;
      how.max_arena_bytes = parts.options.max_arena_bytes;
      how.segment_launches = options.segment_launches;
      how.compare = [this] { return device_.Compare(); };
      backend =
          std::make_unique<engine::CudaBackend>(context, slot.frontend, how);
    } else {
      backend = std::make_unique<engine::HostBackend>(
          slot.frontend, engine::HostBackend::Options{
                             .max_arena_bytes = parts.options.max_arena_bytes,
                             .segment_ops = options.segment_launches});
    }
    parts.backend =
        WatchBackend(std::move(backend), options.fault, &device_.counts);
    parts.frontend = std::move(frontend);
    parts.plans = &device_.plans;
    parts.build = [this](std::shared_ptr<scheduler::BuildJob> job) {
      device_.builds.Post([job] { job->Run(); });
    };
    slot.session = std::make_unique<scheduler::StreamSession>(std::move(parts));
    if (options.executes == Executes::kOnDevice &&
        options.fault != Fault::kGoesUntold) {
      device_.told.push_back(slot.session.get());
    }
  }

  // Of all sessions there were.
  scheduler::Stats Stats() {
    scheduler::Stats stats;
    for (Slot& slot : slots_) {
      if (slot.session == nullptr) continue;
      slot.session->Inspect([&stats](const scheduler::Journal& journal,
                                     const auto&, const engine::Frontend&) {
        stats.ops += journal.stats.ops;
        stats.followed += journal.stats.followed;
      });
    }
    return stats;
  }

  // What the session's journal holds, before it goes.
  void Collect(scheduler::StreamSession& session) {
    session.Inspect([this](const scheduler::Journal& journal, const auto&,
                           const engine::Frontend&) {
#define REPRISE_ADD(name, meaning) stats_.name += journal.stats.name;
      REPRISE_STATS(REPRISE_ADD)
#undef REPRISE_ADD
      for (const auto& [where, times] : journal.rejections) {
        complaints_.push_back(where.second);
      }
      for (const auto& [note, times] : journal.notes) {
        complaints_.push_back(note);
      }
      for (const auto& [cut, times] : journal.cuts) {
        complaints_.push_back(cut.second);
      }
    });
  }

  void Happen(const Event& event) {
    switch (event.what) {
      case Event::What::kForeignWrite: {
        const auto attribute = static_cast<uint32_t>(pass_ + 77);
        real_->WriteForeign(event.variable, attribute);
        plain_->WriteForeign(event.variable, attribute);
        break;
      }
      case Event::What::kFree:
        real_->Free(event.variable);
        plain_->Free(event.variable);
        device_.GiveBack();
        break;
      case Event::What::kRetake: {
        const auto attribute = static_cast<uint32_t>(3000 + pass_);
        real_->Retake(event.variable, attribute);
        plain_->Retake(event.variable, attribute);
        break;
      }
      case Event::What::kAlias:
        real_->Alias(event.variable, event.other);
        plain_->Alias(event.variable, event.other);
        break;
      case Event::What::kPause:
        // An op may be on its way to the session when the hooks go off.
        if (options_.fault != Fault::kOpenWhilePaused) session().Pause();
        ops_->shows = event.twist;
        break;
      case Event::What::kResume:
        Resume();
        break;
      case Event::What::kReset:
        if (event.twist) device_.builds.RunAll();
        Collect(session());
        session().Reset();
        break;
      case Event::What::kOtherOptions:
        session().Pause();
        Take(1 - slot_);
        ops_->shows = true;
        break;
    }
  }
  void Resume() {
    session().Resume();
    ops_->shows = true;
  }

  void BeginPass(const Pass& pass) {
    in_pass_ = true;
    line_ = std::min(static_cast<size_t>(pass.begins_at), program_.body.size());
    before_pass_ = Stats();
    real_->BeginPass(pass, pass_);
    plain_->BeginPass(pass, pass_);
  }

  void EndPass(const Pass& pass) {
    Resume();
    const scheduler::Stats stats = Stats();
    unfollowed_ops_ = (stats.ops - before_pass_.ops) -
                      (stats.followed - before_pass_.followed);
    real_->EndPass(pass);
    plain_->EndPass(pass);
    if (pass.settles) session().Settle();
    if (pass.looks) Look();
    ++pass_;
    in_pass_ = false;
  }

  void Execute(const Line& line, uint32_t change) {
    change += line.grows * static_cast<uint32_t>(pass_);
    device_.clock.Advance(std::chrono::microseconds(device_.times() % 100));
    real_->Execute(line, line.attribute + change);
    plain_->Execute(line, line.attribute + change);
    CompareUses();
  }

  void Raise() {
    bool raised = false;
    try {
      real_->Raise();
    } catch (const OpRaised&) {
      raised = true;
    }
    if (!raised) Fail("an op did not raise");
    try {
      plain_->Raise();
    } catch (const OpRaised&) {
    }
  }

  void CompareUses() {
    if (real_->ops() != plain_->ops()) return Fail("did other ops");
    const std::vector<const StreamTensor*> real = real_->Live();
    const std::vector<const PlainOps::Tensor*> plain = plain_->Live();
    for (size_t i = 0; i < real.size() && i < plain.size(); ++i) {
      if (real[i] == nullptr || plain[i] == nullptr) continue;
      if (real[i]->uses() != plain[i]->uses()) {
        return Fail("a storage has " + std::to_string(real[i]->uses()) +
                    " uses in place of " + std::to_string(plain[i]->uses()));
      }
    }
  }

  // The first failure counts.
  void Fail(const std::string& what) {
    if (!failure_.empty()) return;
    failure_ = "pass " + std::to_string(pass_) + ", line " +
               std::to_string(line_) + ": " + what;
  }

  const Program& program_;
  const RunOptions options_;
  Device& device_;
  CUstream stream_;
  std::array<Slot, 2> slots_;
  size_t slot_ = 0;
  std::optional<StreamOps> ops_;
  PlainOps plain_ops_;
  std::optional<Interpreter<StreamOps>> real_;
  std::optional<Interpreter<PlainOps>> plain_;
  size_t preamble_ = 0;
  size_t pass_ = 0;
  bool in_pass_ = false;
  size_t line_ = 0;
  scheduler::Stats before_pass_;
  uint64_t unfollowed_ops_ = 0;
  scheduler::Stats stats_;  // of what has ended
  std::vector<std::string> complaints_;
  std::string failure_;
};

std::string FailureOf(const Device& device,
                      const std::vector<std::unique_ptr<Twin>>& twins) {
  for (size_t i = 0; i < twins.size(); ++i) {
    if (twins[i]->failure().empty()) continue;
    return "program " + std::to_string(i) + ", " + twins[i]->failure();
  }
  if (!device.gpu.faults.empty()) {
    return "work " + device.gpu.faults.front();
  }
  return "";
}

}  // namespace

RunResult RunBeside(const std::vector<Program>& programs,
                    const RunOptions& options) {
  RunResult result;
  const auto device = std::make_unique<Device>(options);
  SimulatedGpu& gpu = device->gpu;
  std::vector<std::unique_ptr<Twin>> twins;
  for (size_t i = 0; i < programs.size(); ++i) {
    const CUstream stream = i == 0 ? gpu.stream : gpu.streams.Make();
    twins.push_back(
        std::make_unique<Twin>(programs[i], options, device.get(), stream));
  }
  gpu.FailAfter(options.fail_after);
  gpu.cupti_calls.FailAfter(options.fail_cupti_after, options.lasts);
  device->nvrtc.calls.FailAfter(options.fail_nvrtc_after, options.lasts);
  if (options.executes == Executes::kOnDevice) (void)device->recorder->Attach();
  std::mt19937 random(options.seed);
  std::vector<Twin*> running;
  for (const auto& twin : twins) running.push_back(twin.get());
  while (!running.empty() && result.failure.empty()) {
    const size_t next = random() % running.size();
    if (!running[next]->Step()) {
      running[next]->Look();
      running.erase(running.begin() + static_cast<ptrdiff_t>(next));
    }
    result.failure = FailureOf(*device, twins);
  }
  result.failed_call =
      gpu.failed + gpu.cupti_calls.failed() + device->nvrtc.calls.failed();
  // Builds that are left are dropped; tensors outlive sessions and plans.
  result.evictions = device->plans.stats().evictions;
  device->builds.RunAll();
  for (const auto& twin : twins) twin->EndSessions(result);
  gpu.streams.SynchronizeAll();
  if (result.failure.empty()) {
    for (const auto& twin : twins) twin->Compare();
    result.failure = FailureOf(*device, twins);
  }
  twins.clear();
  gpu.streams.SynchronizeAll();
  result.backend = device->counts;
  result.driver_calls = gpu.calls.size();
  if (!result.failure.empty()) return result;
  if (device->recorder->active()) {
    result.failure = "the recorder is still recording";
    return result;
  }
  device->recorder.reset();
  device->compiled.reset();
  const bool lasts = options.lasts == FailingCalls::Lasts::kForGood;
  if (gpu.objects() != 0) {
    result.failure = std::to_string(gpu.objects()) + " driver objects are left";
  } else if (gpu.subscribed() && !lasts) {
    result.failure = "CUPTI is still subscribed to";
  } else if (device->nvrtc.programs() != 0) {
    result.failure = std::to_string(device->nvrtc.programs()) +
                     " programs of NVRTC's are left";
  } else if (device->memory.lent() != 0) {
    result.failure = std::to_string(device->memory.lent()) + " blocks are left";
  } else if (!device->memory.GuardsAreIntact()) {
    result.failure = "a guard was overwritten";
  }
  return result;
}

Scenario ScenarioOf(uint32_t seed, Executes executes) {
  std::mt19937 random(seed ^ 0x5bd1e995);
  std::mt19937 dice(seed);
  Scenario scenario;
  ProgramStyle style;
  style.eventful = style.calm = dice() % 2 == 0;
  const bool measured = dice() % 4 == 0;
  if (style.eventful || measured) style.passes = 50;
  scenario.programs.push_back(RandomProgram(2 * seed, style));
  if (random() % 3 == 0) {
    scenario.programs.push_back(RandomProgram(2 * seed + 1, style));
  }
  RunOptions& options = scenario.options;
  options.executes = executes;
  options.seed = seed;
  if (measured) options.policy = base::Policy::kMeasured;
  if (random() % 4 == 0) options.pace = SimulatedStreams::Pace::kByHand;
  if (random() % 4 == 0) {
    options.plan_budget_bytes = size_t{60} << 10;
  }
  if (random() % 2 == 0) options.validate_share = 0.25;
  options.segment_launches = 2 + static_cast<uint32_t>(random() % 4);
  return scenario;
}

std::string Explain(uint32_t seed, const Scenario& scenario) {
  Scenario smaller = scenario;
  const auto fails = [&smaller] {
    return !RunBeside(smaller.programs, smaller.options).failure.empty();
  };
  for (size_t i = smaller.programs.size(); i-- > 0;) {
    if (smaller.programs.size() == 1) break;
    const std::vector<Program> before = smaller.programs;
    smaller.programs.erase(smaller.programs.begin() +
                           static_cast<ptrdiff_t>(i));
    if (!fails()) smaller.programs = before;
  }
  for (Program& program : smaller.programs) {
    program = Shrink(program, [&](const Program& candidate) {
      const Program before = std::exchange(program, candidate);
      const bool failed = fails();
      program = before;
      return failed;
    });
  }
  std::string text = "seed " + std::to_string(seed) + ": " +
                     RunBeside(scenario.programs, scenario.options).failure +
                     "\nwhat is left of it: " +
                     RunBeside(smaller.programs, smaller.options).failure +
                     "\n";
  for (const Program& program : smaller.programs) text += program.ToString();
  return text;
}

}  // namespace reprise::sim
