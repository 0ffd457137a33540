#include "tests/sim/twin_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/interpreter.h"
#include "tests/sim/twin_stream.h"

namespace reprise::sim {
namespace {

// One program on one stream, run through a session and plainly, line by line.
class Twin {
 public:
  Twin(const Program& program, const RunOptions& options, TwinDevice* device,
       CUstream stream, TwinStream* aside)
      : program_(program),
        edges_(options.edges),
        dice_(options.seed),
        device_(*device),
        aside_(*aside),
        stream_(options, device, stream, &aside->ops()),
        real_(&program_, &stream_.ops()),
        plain_(&program_, &plain_ops_) {
    stream_.Begin();
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
      TouchAll();
      real_.Free(pass.frees);
      plain_.Free(pass.frees);
    }
    if (line == pass.clears_at) stream_.ClearWorkspaces();
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
    TouchAll();
    real_.Look();
    plain_.Look();
    Compare();
  }

  void Compare() {
    device_.gpu.streams.Synchronize(stream_.stream());
    const std::vector<const StreamTensor*> real = real_.Live();
    const std::vector<const PlainOps::Tensor*> plain = plain_.Live();
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
    stream_.End(result);
    result.unfollowed_ops += unfollowed_ops_;
  }

  const std::string& failure() const { return failure_; }

 private:
  // --- Another stream that writes a weight of this one ---

  // What is asked of it from now on comes behind what this stream has done.
  void Fence(bool by_events) {
    if (by_events) {
      stream_.session().Interrupt("records an event");
      aside_.session().Interrupt("waits for an event");
      Order(stream_.stream(), aside_.stream());
    } else {
      const uint64_t wait = device_.BeforeWait(&stream_.session(), false);
      device_.gpu.streams.Synchronize(stream_.stream());
      device_.AfterWait(wait);
    }
    touched_.clear();
    all_touched_ = false;
  }
  void WriteAside(Variable variable, bool by_events) {
    const std::optional<PlainOps::Tensor>& tensor = plain_.variable(variable);
    if (!tensor.has_value()) return;
    aside_.Begin();
    Join();
    if (all_touched_ || touched_.contains(tensor->storage())) Fence(by_events);
    const auto attribute = static_cast<uint32_t>(5000 + pass_);
    real_.WriteAside(variable, attribute);
    plain_.WriteAside(variable, attribute);
    joins_for_ = tensor->storage();
    joins_by_events_ = by_events;
    // Another thread, which this one waits for, waits from now on.
    if (!by_events && pass_ % 3 != 0) BeginWait();
  }
  void BeginWait() {
    wait_ = device_.BeforeWait(&aside_.session(), pass_ % 2 == 0);
  }
  // What this stream does from now on comes behind that.
  void Join() {
    if (joins_for_ == nullptr) return;
    joins_for_ = nullptr;
    if (joins_by_events_) {
      aside_.session().Interrupt("records an event");
      stream_.session().Interrupt("waits for an event");
      Order(aside_.stream(), stream_.stream());
    } else {
      if (!wait_.has_value()) BeginWait();
      device_.gpu.streams.Synchronize(aside_.stream());
      device_.AfterWait(*std::exchange(wait_, std::nullopt));
    }
  }
  void Order(CUstream before, CUstream after) {
    const uint64_t chain = kOrderChains + ++device_.orders;
    device_.gpu.streams.Enqueue(
        before, [] {}, chain);
    device_.gpu.streams.Enqueue(
        after, [] {}, chain);
  }
  // A line is about to use those variables.
  void Touch(const std::vector<Variable>& variables) {
    for (const Variable variable : variables) {
      const std::optional<PlainOps::Tensor>& tensor = plain_.variable(variable);
      if (!tensor.has_value()) continue;
      if (tensor->storage() == joins_for_) Join();
      if (tensor->storage() == written_later_) EndWrite();
      touched_.insert(tensor->storage());
    }
  }
  // Another thread's op that writes the variable is entered. The program waits
  // for it before it uses the variable's memory, as by joining the thread.
  void BeginWrite(const Event& event) {
    const std::optional<PlainOps::Tensor>& tensor =
        plain_.variable(event.variable);
    if (!tensor.has_value()) return;
    EndWrite();
    Touch({event.variable});
    const auto attribute = static_cast<uint32_t>(7000 + pass_);
    written_later_ = tensor->storage();
    const bool shown = !event.twist;
    const auto real = real_.BeginWrite(event.variable, attribute, shown);
    const auto plain = plain_.BeginWrite(event.variable, attribute, shown);
    write_ = [real, plain] {
      real();
      plain();
    };
  }
  void EndWrite() {
    if (written_later_ == nullptr) return;
    written_later_ = nullptr;
    std::exchange(write_, nullptr)();
  }
  // Something is about to use any of them.
  void TouchAll() {
    EndWrite();
    Join();
    all_touched_ = true;
  }

  // A pass begins or ends. What another thread still waits for is not used by
  // that, unless `weights` are.
  void TouchAtEdge(bool weights) {
    if (weights || !wait_.has_value()) return TouchAll();
    EndWrite();
    all_touched_ = true;
  }

  void Happen(const Event& event) {
    const bool names_what_it_uses = event.what == Event::What::kUnderWay;
    if (event.what == Event::What::kFence ||
        event.what == Event::What::kAside) {
      EndWrite();
    } else if (!names_what_it_uses) {
      TouchAll();
    }
    switch (event.what) {
      case Event::What::kForeignWrite: {
        const auto attribute = static_cast<uint32_t>(pass_ + 77);
        real_.WriteForeign(event.variable, attribute);
        plain_.WriteForeign(event.variable, attribute);
        break;
      }
      case Event::What::kFree:
        real_.Free(event.variable);
        plain_.Free(event.variable);
        device_.GiveBack();
        break;
      case Event::What::kRetake: {
        const auto attribute = static_cast<uint32_t>(3000 + pass_);
        real_.Retake(event.variable, attribute);
        plain_.Retake(event.variable, attribute);
        break;
      }
      case Event::What::kAlias:
        real_.Alias(event.variable, event.other);
        plain_.Alias(event.variable, event.other);
        break;
      case Event::What::kFence:
        Fence(event.twist);
        break;
      case Event::What::kAside:
        WriteAside(event.variable, event.twist);
        break;
      case Event::What::kPause:
        stream_.Pause(event.twist);
        break;
      case Event::What::kResume:
        stream_.Resume();
        break;
      case Event::What::kReset:
        if (event.twist) device_.builds.RunAll();
        stream_.Reset();
        break;
      case Event::What::kOtherOptions:
        stream_.TakeOtherOptions();
        break;
      case Event::What::kUnderWay:
        BeginWrite(event);
        break;
      case Event::What::kGenerator:
        Set(stream_.ops().generator, kept_real_, event.generator);
        Set(plain_ops_.generator, kept_plain_, event.generator);
        break;
    }
  }

  // No session is told of it.
  void Set(ModelGenerator& generator, engine::GeneratorState& kept,
           Event::Generator how) const {
    switch (how) {
      case Event::Generator::kSeeds:
        generator.Seed(40 + pass_);
        break;
      case Event::Generator::kReseeds:
        generator.Seed(7);
        break;
      case Event::Generator::kForks:
        kept = generator.state;
        generator.Seed(11);
        break;
      case Event::Generator::kJoins:
        generator.state = kept;
        break;
      case Event::Generator::kUses:
        generator.Draw(pass_);
        break;
    }
  }

  void TellEdge(bool begins) {
    scheduler::StreamSession& session = stream_.session();
    session.Lock();
    if (begins) {
      session.BeginPass();
    } else {
      session.EndPass();
    }
    session.Unlock();
  }

  void BeginPass(const Pass& pass) {
    in_pass_ = true;
    told_ = edges_ == Edges::kTold && dice_() % 4 != 0;
    if (told_) TellEdge(true);
    kept_real_ = stream_.ops().generator.state;
    kept_plain_ = plain_ops_.generator.state;
    TouchAtEdge(pass.replaces_weight >= 0 || pass.edits_weight >= 0);
    line_ = std::min(static_cast<size_t>(pass.begins_at), program_.body.size());
    before_pass_ = stream_.Stats();
    real_.BeginPass(pass, pass_);
    plain_.BeginPass(pass, pass_);
  }

  void EndPass(const Pass& pass) {
    stream_.Resume();
    if (told_) TellEdge(false);
    TouchAtEdge(pass.settles || pass.looks);
    const scheduler::Stats stats = stream_.Stats();
    unfollowed_ops_ = (stats.ops - before_pass_.ops) -
                      (stats.followed - before_pass_.followed);
    real_.EndPass(pass);
    plain_.EndPass(pass);
    if (pass.settles) stream_.session().Settle();
    if (pass.looks) Look();
    ++pass_;
    in_pass_ = false;
  }

  void Execute(const Line& line, uint32_t change) {
    change += line.grows * static_cast<uint32_t>(pass_);
    Touch(line.inputs);
    Touch(line.outputs);
    if (edges_ == Edges::kToldAtRandom && dice_() % 4 == 0) {
      TellEdge(dice_() % 2 == 0);
    }
    device_.clock.Advance(std::chrono::microseconds(device_.times() % 100));
    const uint32_t attribute = line.attribute + change;
    const bool raised = Raises([&] { real_.Execute(line, attribute); });
    if (raised != Raises([&] { plain_.Execute(line, attribute); })) {
      Fail(raised ? "an op raised" : "an op did not raise");
    }
    CompareUses();
  }

  void Raise() {
    TouchAll();
    if (!Raises([this] { real_.Raise(); })) Fail("an op did not raise");
    (void)Raises([this] { plain_.Raise(); });
  }

  static bool Raises(const std::function<void()>& run) {
    try {
      run();
    } catch (const OpRaised&) {
      return true;
    }
    return false;
  }

  void CompareUses() {
    if (real_.ops() != plain_.ops()) return Fail("did other ops");
    if (stream_.ops().generator.state != plain_ops_.generator.state) {
      return Fail("the random generator is elsewhere");
    }
    const std::vector<const StreamTensor*> real = real_.Live();
    const std::vector<const PlainOps::Tensor*> plain = plain_.Live();
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

  // Apart from those of the driver.
  static constexpr uint64_t kOrderChains = uint64_t{1} << 48;

  const Program& program_;
  const Edges edges_;
  std::mt19937 dice_;
  bool told_ = false;  // the pass under way
  TwinDevice& device_;
  TwinStream& aside_;
  TwinStream stream_;
  PlainOps plain_ops_;
  Interpreter<StreamOps> real_;
  Interpreter<PlainOps> plain_;
  // Storages that the stream has used since the last fence.
  std::set<const void*> touched_;
  bool all_touched_ = true;
  const void* joins_for_ = nullptr;  // a storage, before it is used
  bool joins_by_events_ = false;
  std::optional<uint64_t> wait_;         // for that stream, under way
  const void* written_later_ = nullptr;  // a storage, by write_
  std::function<void()> write_;
  engine::GeneratorState kept_real_;
  engine::GeneratorState kept_plain_;
  size_t preamble_ = 0;
  size_t pass_ = 0;
  bool in_pass_ = false;
  size_t line_ = 0;
  scheduler::Stats before_pass_;
  uint64_t unfollowed_ops_ = 0;
  std::string failure_;
};

std::string FailureOf(const TwinDevice& device,
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
  const auto device = std::make_unique<TwinDevice>(options);
  SimulatedGpu& gpu = device->gpu;
  TwinStream aside(options, device.get(), gpu.streams.Make(), nullptr);
  std::vector<std::unique_ptr<Twin>> twins;
  for (size_t i = 0; i < programs.size(); ++i) {
    const CUstream stream = i == 0 ? gpu.stream : gpu.streams.Make();
    twins.push_back(std::make_unique<Twin>(programs[i], options, device.get(),
                                           stream, &aside));
  }
  gpu.FailAfter(options.fail_after);
  gpu.cupti_calls.FailAfter(options.fail_cupti_after, options.lasts);
  device->nvrtc.calls.FailAfter(options.fail_nvrtc_after, options.lasts);
  if (options.executes == Executes::kOnDevice) (void)device->recorder->Attach();
  std::mt19937 random(options.seed);
  std::mt19937 failures(options.seed);
  std::vector<Twin*> running;
  for (const auto& twin : twins) running.push_back(twin.get());
  while (!running.empty() && result.failure.empty()) {
    if (options.fails_at_random && failures() % 48 == 0) {
      const auto calls = static_cast<int>(failures() % 16);
      gpu.FailAfter(calls);
      device->host_calls.FailAfter(calls);
    }
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
  aside.End(result);
  if (result.failure.empty() && device->counts.live_bytes != 0) {
    result.failure =
        std::to_string(device->counts.live_bytes) + " bytes of plans are left";
  }
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
  } else if (gpu.subscribed() && !lasts &&
             gpu.cupti_calls.failed() != "cuptiUnsubscribe") {
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
  scenario.options.fails_at_random = dice() % 4 == 0;
  const bool measured = dice() % 4 == 0;
  if (style.eventful || measured) style.passes = 50;
  scenario.programs.push_back(RandomProgram(2 * seed, style));
  if (random() % 3 == 0) {
    scenario.programs.push_back(RandomProgram(2 * seed + 1, style));
  }
  RunOptions& options = scenario.options;
  options.executes = executes;
  options.seed = seed;
  options.shares_arenas = seed / 4 % 2 == 0;
  if (measured) options.policy = base::Policy::kMeasured;
  if (random() % 4 == 0) options.pace = SimulatedStreams::Pace::kByHand;
  if (random() % 4 == 0) {
    options.plan_budget_bytes = size_t{60} << 10;
  }
  if (random() % 2 == 0) options.validate_share = 0.25;
  options.segment_launches = 2 + static_cast<uint32_t>(random() % 4);
  if (random() % 2 == 0) options.private_bytes = 4096;
  if (random() % 2 == 0) options.foretold_percent = 40 + 15 * (random() % 5);
  if (seed % 4 == 3) {
    options.edges = seed % 8 == 3 ? Edges::kTold : Edges::kToldAtRandom;
    if (seed % 16 < 8) options.trace_budget_bytes = size_t{32} << 10;
  }
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
