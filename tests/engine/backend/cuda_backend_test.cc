// On a simulated GPU: two passes of real ops are recorded, built and run again
// elsewhere with eager's results; patches reach the nodes that they are for;
// whatever call of the driver fails, the failure is reported and nothing is
// left behind.

#include "engine/backend/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/task.h"
#include "engine/device/launch_recorder.h"
#include "engine/replay/plan.h"
#include "engine/trace/mask_numbers.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/trace_recorder.h"
#include "kernels/compare.h"
#include "kernels/strided_layout.h"
#include "tests/engine/base/manual_task_runner.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_program.h"

namespace reprise::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using sim::ResultViewsOf;
using sim::SimulatedCompare;
using sim::SimulatedFrontend;
using sim::SimulatedGpu;
using sim::SimulatedProgram;
using sim::SimulatedStreams;

using Tensor = sim::SimulatedTensor;
using Step = std::function<Tensor(SimulatedProgram&, Tensor x)>;

// A GPU, a program on it and a backend that records it.
class World {
 public:
  explicit World(CudaBackend::Options options = DefaultOptions())
      : recorder(device::LaunchRecorder::Create(gpu.driver, gpu.cupti)),
        program(&gpu, &frontend) {
    gpu.is_memory = [this](uint64_t address) {
      return frontend.memory.Owns(address);
    };
    context.driver = &gpu.driver;
    context.stream = gpu.stream;
    context.context = gpu.context;
    context.recorder = recorder.get();
    context.builds = &builds;
#ifdef REPRISE_MEASURE
    context.skip_launches = &skip_launches;
#endif
    options.compare = [this]() -> base::Result<kernels::DeviceCompare*> {
      if (compare_fails) return base::Fail(base::Code::kInternal, "no compare");
      return &compare;
    };
    backend = std::make_unique<CudaBackend>(context, &frontend, options);
    weight = program.Make(100);
  }

  static CudaBackend::Options DefaultOptions() {
    CudaBackend::Options options;
    options.max_arena_bytes = 1 << 20;
    options.branches = true;
    options.segment_launches = 3;
    return options;
  }

  // Runs `step` as a session does while it records; the reason, if an op
  // cannot be part of a trace.
  base::Result<std::unique_ptr<Trace>> Record(Backend::Recording which,
                                              const Step& step, Tensor x) {
    REPRISE_ASSIGN_OR_RETURN(
        std::unique_ptr<TraceRecorder> recording,
        TraceRecorder::Start(&frontend, backend.get(), which, {}));
    OpenTrace open;
    std::string refusal;
    std::vector<uint64_t> room;
    program.around = [&](const OpView& shown,
                         const SimulatedProgram::Eager& eager) {
      OpView view = shown;
      view.words = MaskNumbers(shown, room);
      const cache::Signature before = open.signature();
      const auto operands = open.Enter(view);
      const base::Status begun = recording->Enter(
          view, cache::HashWords(view.words), before, operands, open.values());
      std::optional<device::LaunchRecorder::Hidden> unseen;
      if (launches_unseen) unseen.emplace();
      std::vector<Tensor> results = eager();
      unseen.reset();
      const auto views = ResultViewsOf(results);
      const auto values = open.Leave(views);
      if (refusal.empty() && !begun) refusal = begun.error().message();
      const std::string why =
          recording->Leave(view, views, values, open.values());
      if (refusal.empty()) refusal = why;
      return results;
    };
    step(program, x);
    program.around = nullptr;
    if (!refusal.empty()) {
      return base::Fail(base::Code::kFailedPrecondition, refusal);
    }
    return recording->Finish(open.signature());
  }

  // Two passes on inputs of their own, and a plan.
  base::Result<std::unique_ptr<Plan>> Build(const Step& step) {
    REPRISE_ASSIGN_OR_RETURN(
        auto first, Record(Backend::Recording::kFirst, step, program.Make(1)));
    REPRISE_ASSIGN_OR_RETURN(auto second, Record(Backend::Recording::kRelocated,
                                                 step, program.Make(2)));
    return Build(std::move(first), *second);
  }

  base::Result<std::unique_ptr<Plan>> Build(std::shared_ptr<const Trace> first,
                                            const Trace& second) {
    auto program = backend->Explain(std::move(first), second);
    if (!program) return tl::unexpected(program.error().error);
    REPRISE_ASSIGN_OR_RETURN(InstanceParts parts,
                             backend->Instantiate(*program, nullptr));
    return std::make_unique<Plan>(*std::move(program), std::move(parts));
  }

  // Launches a whole instance on `x`, whose op is the trace's head.
  base::Status Launch(Plan& plan, Tensor x, size_t index = 0) {
    Instance& instance = plan.instance(index);
    const TracedOp& head = plan.trace().ops[0];
    std::vector<Operand> operands;
    for (const ValueRef& ref : head.operands) {
      Operand& operand = operands.emplace_back();
      const Value& value = plan.trace().values[ref.value];
      operand.storage = value.storage;
      operand.base = ref.value == 0 ? x.base : value.origin;
    }
    OpView view;
    view.op = head.op;
    view.words = head.words;
    view.operands = operands;
    StorageHolds holds(&frontend);
    if (instance.Resolve(view, holds) != Instance::Readiness::kReady) {
      return base::Fail(base::Code::kFailedPrecondition, "is not ready");
    }
    for (size_t s = 0; s < instance.program().segments.size(); ++s) {
      REPRISE_RETURN_IF_ERROR(instance.LaunchNext());
    }
    instance.Finish();
    return {};
  }

  std::vector<float> ResultOf(const Plan& plan, size_t index = 0) const {
    const ResultSpec& result = plan.trace().ops.back().results[0];
    const auto* data = reinterpret_cast<const float*>(
        plan.instance(index).binding().origin(result.value));
    return {data, data + SimulatedProgram::kElements};
  }

  SimulatedGpu gpu;
  SimulatedFrontend frontend;
  SimulatedCompare compare{&gpu.streams};
  bool compare_fails = false;
  bool launches_unseen = false;  // from now on
  std::unique_ptr<device::LaunchRecorder> recorder;
  SimulatedProgram program;
  Tensor weight;
#ifdef REPRISE_MEASURE
  std::atomic<bool> skip_launches{false};
#endif
  base::ManualTaskRunner builds;
  CudaContext context;
  std::unique_ptr<CudaBackend> backend;
};

std::vector<float> ValuesOf(const Tensor& tensor) {
  return {tensor.data(), tensor.data() + SimulatedProgram::kElements};
}

// Eight launches of every kind, in place, with a temporary.
Step MixedStep(const Tensor& weight) {
  return [weight](SimulatedProgram& p, Tensor x) {
    const Tensor a = p.Add(x, weight);
    const Tensor b = p.TwiceAdd(a, weight);
    p.Negate(a);
    const Tensor c = p.Clone(a);
    const Tensor z = p.Zeros();
    const Tensor d = p.Add(c, z);
    return p.Add(d, p.Scale(b, 0.25f));
  };
}

class CudaBackendTest : public testing::Test {
 protected:
  std::optional<World> world_{std::in_place};
};

TEST_F(CudaBackendTest, PlanComputesWhatEagerComputes) {
  const Step step = MixedStep(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ((*plan)->program()->launches, 9u);
  for (float seed : {5.0f, 6.0f, 7.0f}) {
    // Weights may be edited in place.
    world_->weight.data()[3] = seed;
    const Tensor x = world_->program.Make(seed);
    ASSERT_TRUE(world_->Launch(**plan, x));
    EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
  }
  EXPECT_TRUE(world_->frontend.memory.GuardsAreIntact());
}

// Made twice of one program: neither copy patches or writes what
// the other one holds.
TEST_F(CudaBackendTest, InstancesOfOnePlanShareNeitherMemoryNorGraphs) {
  const Step step = MixedStep(world_->weight);
  auto first =
      world_->Record(Backend::Recording::kFirst, step, world_->program.Make(1));
  auto second = world_->Record(Backend::Recording::kRelocated, step,
                               world_->program.Make(2));
  ASSERT_TRUE(first && second);
  auto built = world_->Build(*std::move(first), **second);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  const size_t graphs = plan.program()->segments.size();
  auto other = world_->backend->Instantiate(plan.program(), nullptr);
  ASSERT_TRUE(other) << other.error().message();
  plan.Add(*std::move(other));
  EXPECT_THAT(world_->gpu.execs(), SizeIs(2 * graphs));
  for (ValueId v : plan.outputs()) {
    EXPECT_NE(plan.instance(0).binding().origin(v),
              plan.instance(1).binding().origin(v));
  }

  const Tensor x = world_->program.Make(5);
  const Tensor y = world_->program.Make(6);
  ASSERT_TRUE(world_->Launch(plan, x, 0));
  ASSERT_TRUE(world_->Launch(plan, y, 1));
  EXPECT_EQ(world_->ResultOf(plan, 0), ValuesOf(step(world_->program, x)));
  EXPECT_EQ(world_->ResultOf(plan, 1), ValuesOf(step(world_->program, y)));
  // Of one op the program has left, the work is run again by its own instance.
  ASSERT_TRUE(plan.instance(1).executor().LaunchOp(0));
  EXPECT_EQ(world_->ResultOf(plan, 0), ValuesOf(step(world_->program, x)));
  // Each goes on with what it had: nothing is patched for an input at rest.
  world_->gpu.updates = 0;
  ASSERT_TRUE(world_->Launch(plan, x, 0));
  ASSERT_TRUE(world_->Launch(plan, y, 1));
  EXPECT_EQ(world_->gpu.updates, 0);
  EXPECT_EQ(world_->ResultOf(plan, 1), ValuesOf(step(world_->program, y)));
  plan.DropLast();
  EXPECT_THAT(world_->gpu.execs(), SizeIs(graphs));
  ASSERT_TRUE(world_->Launch(plan, y, 0));
  EXPECT_EQ(world_->ResultOf(plan, 0), ValuesOf(step(world_->program, y)));
  EXPECT_TRUE(world_->frontend.memory.GuardsAreIntact());
}

TEST_F(CudaBackendTest, PlanTouchesNoMemoryOfTheRecordings) {
  auto plan = world_->Build(MixedStep(world_->weight));
  ASSERT_TRUE(plan) << plan.error().message();
  for (const Value& value : (*plan)->trace().values) {
    if (value.external) continue;
    std::memset(reinterpret_cast<void*>(value.base), 0x77, value.size_bytes);
  }
  ASSERT_TRUE(world_->Launch(**plan, world_->program.Make(5)));
  for (const Value& value : (*plan)->trace().values) {
    if (value.external) continue;
    const auto* byte = reinterpret_cast<const unsigned char*>(value.base);
    for (size_t i = 0; i < value.size_bytes; ++i) ASSERT_EQ(byte[i], 0x77);
  }
}

TEST_F(CudaBackendTest, SegmentsHoldWholeOpsAndAboutAsManyLaunchesAsAsked) {
  auto plan = world_->Build(MixedStep(world_->weight));
  ASSERT_TRUE(plan) << plan.error().message();
  uint32_t op = 0;
  uint32_t launches = 0;
  for (const Segment& segment : (*plan)->program()->segments) {
    EXPECT_EQ(segment.first_op, op);
    EXPECT_GT(segment.end_op, op);
    EXPECT_LE(segment.launches, 3u);
    op = segment.end_op;
    launches += segment.launches;
  }
  EXPECT_EQ(op, (*plan)->trace().ops.size());
  EXPECT_EQ(launches, 9u);
  EXPECT_THAT(world_->gpu.execs(), SizeIs((*plan)->program()->segments.size()));
}

TEST_F(CudaBackendTest, OpOfMoreLaunchesThanASegmentHasOneOfItsOwn) {
  CudaBackend::Options options = World::DefaultOptions();
  options.segment_launches = 1;
  world_.emplace(options);
  const Step step = [this](SimulatedProgram& p, Tensor x) {
    return p.Scale(p.TwiceAdd(x, world_->weight), 2);
  };
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_THAT((*plan)->program()->segments, SizeIs(2));
  EXPECT_EQ((*plan)->program()->segments[0].launches, 2u);
  const Tensor x = world_->program.Make(5);
  ASSERT_TRUE(world_->Launch(**plan, x));
  EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
}

// Each graph that waits behind others makes the device wait longer between two.
TEST_F(CudaBackendTest, ChainsOfGraphsAreBroken) {
  CudaBackend::Options options = World::DefaultOptions();
  options.segment_launches = 1;
  world_.emplace(options);
  const Step step = [this](SimulatedProgram& p, Tensor x) {
    for (int i = 0; i < 20; ++i) x = p.Add(x, world_->weight);
    return x;
  };
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_THAT((*plan)->program()->segments, SizeIs(20));
  world_->gpu.calls.clear();
  for (float seed : {5.0f, 6.0f, 7.0f}) {  // they follow each other
    const Tensor x = world_->program.Make(seed);
    ASSERT_TRUE(world_->Launch(**plan, x));
    EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
  }
  size_t graphs = 0;
  size_t chained = 0;
  for (const std::string& call : world_->gpu.calls) {
    if (call == "cuMemsetD32Async") chained = 0;
    if (call != "cuGraphLaunch") continue;
    ++graphs;
    EXPECT_LE(++chained, 16u);
  }
  EXPECT_EQ(graphs, 60u);
  EXPECT_EQ(std::ranges::count(world_->gpu.calls, "cuMemsetD32Async"), 3);
}

TEST_F(CudaBackendTest, BindPatchesTheNodesThatHoldTheValueAndNoOther) {
  auto plan = world_->Build([this](SimulatedProgram& p, Tensor x) {
    const Tensor a = p.Add(x, world_->weight);
    return p.Add(p.Scale(x, 3), a);
  });
  ASSERT_TRUE(plan) << plan.error().message();
  Executor& executor = (*plan)->instance(0).executor();
  ASSERT_TRUE(executor.LaunchSegment(0, 0).status);
  ASSERT_THAT(world_->gpu.execs(), SizeIs(1));
  const SimulatedGpu::Graph& exec = *world_->gpu.execs()[0];
  ASSERT_THAT(exec, SizeIs(3));
  const uint64_t old_word = exec[0].Word(8);
  world_->gpu.updates = 0;
  const Tensor x = world_->program.Make(5);
  executor.Bind(0, x.base);
  // Not before the launch.
  EXPECT_EQ(exec[0].Word(8), old_word);
  ASSERT_TRUE(executor.LaunchSegment(0, 0).status);
  EXPECT_EQ(world_->gpu.updates, 2);
  EXPECT_EQ(exec[0].Word(8), x.base);   // add(out, a, b, elements)
  EXPECT_EQ(exec[1].Word(24), x.base);  // scale(elements, out, factor, a)
  EXPECT_EQ(exec[0].Word(16), world_->weight.base);
  EXPECT_EQ(exec[2].Word(8), (*plan)->instance(0).binding().origin(3));
  // Bound where it is, or launched again: nothing to patch.
  executor.Bind(0, x.base);
  ASSERT_TRUE(executor.LaunchSegment(0, 0).status);
  EXPECT_EQ(world_->gpu.updates, 2);
}

// Two towers: what one of them makes is nothing to the other.
Step Towers(const Tensor& weight) {
  return [weight](SimulatedProgram& p, Tensor x) {
    Tensor left = p.Add(x, weight);
    Tensor right = p.Scale(x, 3);
    for (int i = 0; i < 3; ++i) {
      left = p.TwiceAdd(left, x);
      right = p.TwiceAdd(right, weight);
    }
    return p.Add(left, right);
  };
}

TEST_F(CudaBackendTest, BranchesOfAGraphAreDoneInAnyOrder) {
  CudaBackend::Options options = World::DefaultOptions();
  options.segment_launches = 100;
  world_.emplace(options);
  const Step step = Towers(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ((*plan)->program()->branches.size(), 2u);
  ASSERT_THAT(world_->gpu.execs(), SizeIs(1));
  const SimulatedGpu::Graph& exec = *world_->gpu.execs()[0];
  EXPECT_THAT(exec.front().before, IsEmpty());
  EXPECT_THAT(exec.back().before, SizeIs(2));
  for (uint32_t seed = 0; seed < 50; ++seed) {
    world_->gpu.order.emplace(seed);
    // Each time patched.
    const Tensor x = world_->program.Make(static_cast<float>(seed));
    ASSERT_TRUE(world_->Launch(**plan, x));
    EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
  }
  EXPECT_TRUE(world_->frontend.memory.GuardsAreIntact());
}

TEST_F(CudaBackendTest, OpsOfALibraryThatShareItsMemoryFollowEachOther) {
  CudaBackend::Options options = World::DefaultOptions();
  options.segment_launches = 100;
  world_.emplace(options);
  const Step step = [this](SimulatedProgram& p, Tensor x) {
    Tensor left = p.Add(x, world_->weight);
    Tensor right = p.Scale(x, 3);
    left = p.TwiceAddInWorkspace(left, x);
    right = p.TwiceAddInWorkspace(right, x);
    return p.Add(left, right);
  };
  // What is kept is there when recordings begin.
  step(world_->program, world_->program.Make(9));
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ((*plan)->program()->branches.size(), 2u);
  for (uint32_t seed = 0; seed < 50; ++seed) {
    world_->gpu.order.emplace(seed);
    const Tensor x = world_->program.Make(static_cast<float>(seed));
    ASSERT_TRUE(world_->Launch(**plan, x));
    EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
  }
}

TEST_F(CudaBackendTest, NothingIsRecordedWhoseMemoryNobodyCanWatch) {
  const Step step = MixedStep(world_->weight);
  world_->frontend.watch_fails = true;
  const auto plan = world_->Build(step);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(), HasSubstr("told to fail"));
}

// --- Kernels that a library frees --------------------------------------------

class LibraryFreesTest : public CudaBackendTest {
 protected:
  void SetUp() override {
    CudaBackendTest::SetUp();
    world_->program.may_use_library_plans = true;
  }
  std::unique_ptr<Trace> Record(Backend::Recording which) {
    auto trace = world_->Record(which, MixedStep(world_->weight),
                                world_->program.Make(++inputs_));
    EXPECT_TRUE(trace) << trace.error().message();
    return *std::move(trace);
  }
  void Free() { const LibraryFrees::Freeing freeing(frees()); }
  LibraryFrees& frees() { return world_->frontend.frees; }

  float inputs_ = 0;
};

TEST_F(LibraryFreesTest, EndWhatMayHaveLaunchedThem) {
  for (const bool may_use : {true, false}) {
    world_->program.may_use_library_plans = may_use;
    auto plan = world_->Build(MixedStep(world_->weight));
    ASSERT_TRUE(plan) << plan.error().message();
    const Tensor x = world_->program.Make(4);
    ASSERT_TRUE(world_->Launch(**plan, x));
    frees().Announce();
    EXPECT_EQ(world_->Launch(**plan, x).has_value(), !may_use);
  }
}

TEST_F(LibraryFreesTest, AreSeenBetweenTheRecordingsAndBehindThem) {
  for (const bool between : {true, false}) {
    std::shared_ptr<const Trace> first = Record(Backend::Recording::kFirst);
    if (between) Free();
    const auto second = Record(Backend::Recording::kRelocated);
    if (!between) Free();
    const auto program = world_->backend->Explain(std::move(first), *second);
    ASSERT_FALSE(program);
    EXPECT_TRUE(program.error().outdated);
    EXPECT_THAT(program.error().error.message(), HasSubstr("freed kernels"));
  }
}

TEST_F(LibraryFreesTest, AreSeenBeforeAnInstanceIsMade) {
  std::shared_ptr<const Trace> first = Record(Backend::Recording::kFirst);
  const auto second = Record(Backend::Recording::kRelocated);
  const auto program = world_->backend->Explain(std::move(first), *second);
  ASSERT_TRUE(program) << program.error().error.message();
  Free();
  const auto parts = world_->backend->Instantiate(*program, nullptr);
  ASSERT_FALSE(parts);
  EXPECT_THAT(parts.error().message(), HasSubstr("freed kernels"));
}

TEST_F(LibraryFreesTest, OfOneOpEndTheWholePlan) {
  world_->program.may_use_library_plans = false;
  auto plan = world_->Build([this](SimulatedProgram& p, Tensor x) {
    const Tensor first = p.Add(x, world_->weight);
    p.may_use_library_plans = true;
    const Tensor last = p.Add(first, world_->weight);
    p.may_use_library_plans = false;
    return last;
  });
  ASSERT_TRUE(plan) << plan.error().message();
  const Tensor x = world_->program.Make(4);
  ASSERT_TRUE(world_->Launch(**plan, x));
  Free();
  EXPECT_FALSE(world_->Launch(**plan, x));
}

// Nobody has told of what it may have freed.
TEST_F(LibraryFreesTest, AreFearedOfALibraryThatIsFull) {
  std::shared_ptr<const Trace> first = Record(Backend::Recording::kFirst);
  const auto second = Record(Backend::Recording::kRelocated);
  auto plan = world_->Build(first, *second);
  ASSERT_TRUE(plan) << plan.error().message();
  world_->frontend.library_is_full = true;
  EXPECT_FALSE(world_->Launch(**plan, world_->program.Make(4)));
  EXPECT_FALSE(world_->Build(std::move(first), *second));
}

// --- Segments that are launched together -------------------------------------

class JoinedSegmentsTest : public CudaBackendTest {
 protected:
  void SetUp() override {
    CudaBackendTest::SetUp();
    auto plan = world_->Build(step_);
    ASSERT_TRUE(plan) << plan.error().message();
    plan_ = *std::move(plan);
    ASSERT_THAT(segments(), SizeIs(4));
  }

  const std::vector<Segment>& segments() const {
    return plan_->program()->segments;
  }
  // The first segment, and then the others; graphs that were launched.
  int Launch(Tensor x) {
    Executor& executor = plan_->instance(0).executor();
    const int before = world_->gpu.graph_launches;
    executor.Bind(0, x.base);
    EXPECT_TRUE(executor.LaunchSegment(0, 0).status);
    EXPECT_TRUE(
        executor.LaunchSegments(1, std::span(segments()).subspan(1)).status);
    EXPECT_EQ(world_->ResultOf(*plan_), ValuesOf(step_(world_->program, x)));
    return world_->gpu.graph_launches - before;
  }

  const Step step_ = [this](SimulatedProgram& p, Tensor x) {
    Tensor y = p.Add(x, world_->weight);
    for (int i = 0; i < 5; ++i) y = p.Scale(p.Add(y, x), 2);
    return y;
  };
  std::unique_ptr<Plan> plan_;
};

TEST_F(JoinedSegmentsTest, AreOneGraphOnceThatIsBuilt) {
  EXPECT_EQ(Launch(world_->program.Make(5)), 4);
  EXPECT_EQ(Launch(world_->program.Make(6)), 4);
  EXPECT_EQ(world_->builds.pending(), 0u);
  EXPECT_EQ(Launch(world_->program.Make(7)), 4);
  EXPECT_EQ(world_->builds.pending(), 1u);
  // What is bound meanwhile is bound in it, too.
  EXPECT_EQ(Launch(world_->program.Make(8)), 4);
  world_->builds.RunAll();
  EXPECT_EQ(Launch(world_->program.Make(9)), 2);
  EXPECT_EQ(Launch(world_->program.Make(10)), 2);
  EXPECT_EQ(world_->builds.pending(), 0u);
  // By themselves they are what they were.
  Executor& executor = plan_->instance(0).executor();
  const Tensor x = world_->program.Make(11);
  executor.Bind(0, x.base);
  for (size_t s = 0; s < segments().size(); ++s) {
    ASSERT_TRUE(executor.LaunchSegment(s, segments()[s].first_op).status);
  }
  EXPECT_EQ(world_->ResultOf(*plan_), ValuesOf(step_(world_->program, x)));
}

TEST_F(CudaBackendTest, JoinedSegmentsHaveBranchesThatReachFurther) {
  const Step step = Towers(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  Executor& executor = (*plan)->instance(0).executor();
  const std::span segments = (*plan)->program()->segments;
  ASSERT_GT(segments.size(), 2u);
  for (uint32_t seed = 0; seed < 50; ++seed) {
    world_->gpu.order.emplace(seed);
    const Tensor x = world_->program.Make(static_cast<float>(seed));
    executor.Bind(0, x.base);
    ASSERT_TRUE(executor.LaunchSegments(0, segments).status);
    world_->builds.RunAll();
    EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
  }
  const SimulatedGpu::Graph& joined = *world_->gpu.execs().back();
  EXPECT_THAT(joined, SizeIs((*plan)->program()->launches));
  EXPECT_THAT(joined[1].before, IsEmpty());
}

TEST_F(JoinedSegmentsTest, StayApartWhereTheyCannotBeBuilt) {
  for (int i = 0; i < 3; ++i) Launch(world_->program.Make(5));
  world_->gpu.FailAfter(2);
  world_->builds.RunAll();
  EXPECT_EQ(Launch(world_->program.Make(6)), 4);
  EXPECT_EQ(world_->builds.pending(), 0u);
}

TEST_F(JoinedSegmentsTest, LaunchThatFailsLaunchesNone) {
  for (int i = 0; i < 3; ++i) Launch(world_->program.Make(5));
  world_->builds.RunAll();
  Executor& executor = plan_->instance(0).executor();
  const auto others = std::span(segments()).subspan(1);
  executor.Bind(0, world_->program.Make(6).base);
  world_->gpu.FailAfter(1);
  const Executor::Progress failed = executor.LaunchSegments(1, others);
  EXPECT_FALSE(failed.status);
  EXPECT_EQ(failed.end_op, segments()[1].first_op);
  EXPECT_EQ(Launch(world_->program.Make(7)), 2);
}

TEST_F(JoinedSegmentsTest, AreNotMadeOfKernelsThatALibraryHasFreed) {
  world_->program.may_use_library_plans = true;
  auto plan = world_->Build(step_);
  ASSERT_TRUE(plan) << plan.error().message();
  plan_ = *std::move(plan);
  for (int i = 0; i < 3; ++i) Launch(world_->program.Make(5));
  const size_t graphs = world_->gpu.execs().size();
  { const LibraryFrees::Freeing freeing(world_->frontend.frees); }
  EXPECT_EQ(world_->builds.RunAll(), 1u);
  EXPECT_EQ(world_->gpu.execs().size(), graphs);
}

TEST_F(JoinedSegmentsTest, OutliveTheirExecutorWhileTheyAreBuilt) {
  for (int i = 0; i < 3; ++i) Launch(world_->program.Make(5));
  EXPECT_GT(plan_->instance(0).executor().TakeGrowth(), 0u);
  EXPECT_EQ(plan_->instance(0).executor().TakeGrowth(), 0u);
  plan_.reset();
  EXPECT_EQ(world_->builds.RunAll(), 1u);
  EXPECT_THAT(world_->gpu.execs(), IsEmpty());
}

// A step that takes a number, recorded with two of them.
using NumberStep = std::function<Tensor(SimulatedProgram&, Tensor x, float)>;

class CudaNumbersTest : public CudaBackendTest {
 protected:
  void Record(NumberStep step, float first, float second) {
    step_ = std::move(step);
    first_ = RecordWith(Backend::Recording::kFirst, first);
    second_ = RecordWith(Backend::Recording::kRelocated, second);
    ASSERT_TRUE(first_ != nullptr && second_ != nullptr);
  }

  // Launched on fresh input with that number, op 1's, it does what eager does.
  void ExpectSame(Plan& plan, float number) {
    const Tensor x = world_->program.Make(5);
    ASSERT_EQ(Fit(plan, number), Executor::Fit::kBound) << number;
    ASSERT_TRUE(world_->Launch(plan, x));
    EXPECT_EQ(world_->ResultOf(plan),
              ValuesOf(step_(world_->program, x, number)));
  }
  static Executor::Fit Fit(Plan& plan, float number) {
    return Fit(plan, std::vector{number});
  }
  static Executor::Fit Fit(Plan& plan, const std::vector<float>& numbers) {
    std::vector<uint64_t> bits;
    for (const float number : numbers) {
      bits.push_back(std::bit_cast<uint32_t>(number));
    }
    return plan.instance(0).executor().SetScalars(1, bits);
  }

  NumberStep step_;
  std::unique_ptr<Trace> first_;
  std::unique_ptr<Trace> second_;

 private:
  std::unique_ptr<Trace> RecordWith(Backend::Recording which, float number) {
    auto trace = world_->Record(
        which,
        [&](SimulatedProgram& p, Tensor x) { return step_(p, x, number); },
        world_->program.Make(number));
    return trace ? *std::move(trace) : nullptr;
  }
};

TEST_F(CudaNumbersTest, NumberThatChangesIsPatchedWhenItsOpComes) {
  Record(
      [this](SimulatedProgram& p, Tensor x, float number) {
        const Tensor a = p.Add(x, world_->weight);
        const Tensor b = p.Scale(a, number);
        return p.Add(b, p.Scale(a, 0.375f));
      },
      0.3f, 0.7f);
  EXPECT_EQ(first_->signature, second_->signature);
  auto built = world_->Build(std::move(first_), *second_);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  ASSERT_THAT(plan.program()->segments, SizeIs(2));
  EXPECT_TRUE(plan.program()->segments[1].gated);
  EXPECT_EQ(plan.program()->segments[1].first_op, 1u);
  for (float number : {0.7f, 1.7f, 1e30f, 0.3f}) ExpectSame(plan, number);
}

TEST_F(CudaNumbersTest, KernelMayHoldTheInverse) {
  Record(
      [this](SimulatedProgram& p, Tensor x, float number) {
        return p.Divide(p.Add(x, world_->weight), number);
      },
      0.3f, 7.0f);
  auto built = world_->Build(std::move(first_), *second_);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  for (float number : {11.0f, 0.7f, 1e-30f}) ExpectSame(plan, number);
  // Its inverse is infinite; no recording has shown what happens then.
  EXPECT_EQ(Fit(plan, 1e-40f), Executor::Fit::kOutside);
}

// The recordings have two numbers, and one inverse.
TEST_F(CudaNumbersTest, InverseThatDidNotChangeMustNotChange) {
  const float number = 1.9f;
  const float next = std::nextafter(number, 1.0f);
  ASSERT_EQ(1 / number, 1 / next);
  Record(
      [this](SimulatedProgram& p, Tensor x, float divisor) {
        return p.FloorDivide(p.Add(x, world_->weight), divisor);
      },
      number, next);
  auto built = world_->Build(std::move(first_), *second_);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  for (const float same : {number, next}) ExpectSame(plan, same);
  for (const float other : {1.7f, 0.3f, 7.0f}) {
    EXPECT_EQ(Fit(plan, other), Executor::Fit::kUntold) << other;
  }
}

TEST_F(CudaNumbersTest, NumberThatNothingExplainsIsNoSlot) {
  Record(
      [this](SimulatedProgram& p, Tensor x, float number) {
        const Tensor a = p.Add(x, world_->weight);
        const Tensor b = p.ScaleBySquare(a, number);
        return p.Add(b, p.Scale(a, number));
      },
      0.3f, 0.7f);
  const auto built = world_->backend->Explain(std::move(first_), *second_);
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().unexplained, ::testing::ElementsAre(1u));
  EXPECT_THAT(built.error().error.message(), HasSubstr("op 1"));
}

// As many as a list of parameters is long, each launch with some of them.
TEST_F(CudaNumbersTest, ListsOfNumbersArePatched) {
  const auto numbers = [](float number, size_t count) {
    std::vector<float> numbers;
    for (size_t i = 0; i < count; ++i) {
      numbers.push_back(number + 0.01f * static_cast<float>(i % 3));
    }
    return numbers;
  };
  for (const size_t count : {1u, 7u, 97u}) {
    Record(
        [this, numbers, count](SimulatedProgram& p, Tensor x, float number) {
          return p.ScaleEach(p.Add(x, world_->weight), numbers(number, count));
        },
        0.9f, 1.13f);
    EXPECT_EQ(first_->signature, second_->signature);
    auto built = world_->Build(std::move(first_), *second_);
    ASSERT_TRUE(built) << built.error().message();
    Plan& plan = **built;
    for (const float number : {1.07f, 0.97f, 1.13f}) {
      const Tensor x = world_->program.Make(5);
      ASSERT_EQ(Fit(plan, numbers(number, count)), Executor::Fit::kBound);
      ASSERT_TRUE(world_->Launch(plan, x));
      EXPECT_EQ(world_->ResultOf(plan),
                ValuesOf(step_(world_->program, x, number)));
    }
  }
}

// Both recordings have one number in the whole list, and nothing tells which
// place is whose.
TEST_F(CudaNumbersTest, ElementsThatWereAlwaysEqualMustStayEqual) {
  Record(
      [this](SimulatedProgram& p, Tensor x, float number) {
        return p.ScaleEach(p.Add(x, world_->weight),
                           std::vector<float>(70, number));
      },
      0.9f, 1.13f);
  auto built = world_->Build(std::move(first_), *second_);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  std::vector<float> numbers(70, 1.07f);
  EXPECT_EQ(Fit(plan, numbers), Executor::Fit::kBound);
  numbers[69] = 1.06f;
  EXPECT_EQ(Fit(plan, numbers), Executor::Fit::kUntold);
  numbers.assign(70, 1.05f);
  ASSERT_EQ(Fit(plan, numbers), Executor::Fit::kBound);
  const Tensor x = world_->program.Make(5);
  ASSERT_TRUE(world_->Launch(plan, x));
  EXPECT_EQ(world_->ResultOf(plan), ValuesOf(step_(world_->program, x, 1.05f)));
}

// Both numbers are whole: the recordings do not tell a float from a bfloat16
// above zeros.
TEST_F(CudaNumbersTest, NumberOfWhichRecordingsDoNotTellEnoughIsRefused) {
  Record(
      [this](SimulatedProgram& p, Tensor x, float number) {
        return p.Scale(p.Add(x, world_->weight), number);
      },
      5.0f, 7.0f);
  auto built = world_->Build(std::move(first_), *second_);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  ExpectSame(plan, 9.0f);
  EXPECT_EQ(Fit(plan, 0.3f), Executor::Fit::kUntold);
  ExpectSame(plan, 9.0f);
}

TEST_F(CudaBackendTest, FillsAndCopiesArePatchedToo) {
  auto plan = world_->Build([](SimulatedProgram& p, Tensor x) {
    const Tensor copy = p.Clone(x);
    p.Zeros();
    return copy;
  });
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE((*plan)->instance(0).executor().LaunchSegment(0, 0).status);
  const SimulatedGpu::Graph& exec = *world_->gpu.execs()[0];
  ASSERT_THAT(exec, SizeIs(2));
  EXPECT_EQ(exec[0].copy.dstDevice, (*plan)->instance(0).binding().origin(1));
  EXPECT_EQ(exec[1].fill.dst, (*plan)->instance(0).binding().origin(2));
  const Tensor x = world_->program.Make(5);
  (*plan)->instance(0).executor().Bind(0, x.base);
  ASSERT_TRUE((*plan)->instance(0).executor().LaunchSegment(0, 0).status);
  EXPECT_EQ(exec[0].copy.srcDevice, x.base);
}

TEST_F(CudaBackendTest, UpdateThatFailedIsMadeAtTheNextLaunch) {
  const Step step = MixedStep(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(world_->Launch(**plan, world_->program.Make(5)));
  const Tensor x = world_->program.Make(6);
  // The next launch sees to its context and makes its first update.
  world_->gpu.FailAfter(1);
  EXPECT_FALSE(world_->Launch(**plan, x));
  EXPECT_EQ(world_->gpu.failed, "cuGraphExecKernelNodeSetParams");
  ASSERT_TRUE(world_->Launch(**plan, x));
  EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
}

// What is left behind while another stream still reads it is not overwritten.
TEST_F(CudaBackendTest, LaunchWaitsForStreamsThatItsMemoryWasLentTo) {
  const Step step = MixedStep(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  const Tensor x = world_->program.Make(5);
  const Tensor y = world_->program.Make(6);
  SimulatedStreams& streams = world_->gpu.streams;
  const CUstream side = streams.Make();
  ASSERT_TRUE(world_->Launch(**plan, x));
  streams.SetPace(SimulatedStreams::Pace::kByHand);
  Instance& instance = (*plan)->instance(0);
  const ValueId result = (*plan)->trace().ops.back().results[0].value;
  Block block = instance.TakeBlock(result);
  const Block::Parts parts = block.Detach();
  ASSERT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  std::vector<float> read;
  streams.Enqueue(side, [&] { read = world_->ResultOf(**plan); });
  parts.release(parts.context);
  ASSERT_TRUE(world_->Launch(**plan, y));
  streams.Synchronize(world_->gpu.stream);
  streams.SetPace(SimulatedStreams::Pace::kAtOnce);
  EXPECT_EQ(read, ValuesOf(step(world_->program, x)));
  EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, y)));
}

// While a stream is captured nobody can wait for what it was given before.
TEST_F(CudaBackendTest, NothingIsLaunchedOverWhatACapturedStreamWasLent) {
  const Step step = MixedStep(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  const Tensor x = world_->program.Make(5);
  const CUstream side = world_->gpu.streams.Make();
  ASSERT_TRUE(world_->Launch(**plan, x));
  const device::Driver& driver = world_->gpu.driver;
  ASSERT_EQ(
      driver.cuStreamBeginCapture(side, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  const ValueId result = (*plan)->trace().ops.back().results[0].value;
  const Block::Parts parts = (*plan)->instance(0).TakeBlock(result).Detach();
  ASSERT_TRUE(Ledger::Lend(parts.context, parts.release, side));
  parts.release(parts.context);
  EXPECT_FALSE(world_->Launch(**plan, x));
  CUgraph graph = nullptr;
  ASSERT_EQ(driver.cuStreamEndCapture(side, &graph), CUDA_SUCCESS);
  driver.cuGraphDestroy(graph);
  EXPECT_TRUE(world_->Launch(**plan, x));
}

// The session's context is not the thread's, and is put back.
TEST_F(CudaBackendTest, LaunchesInTheContextOfItsStream) {
  const Step step = MixedStep(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  const auto other = reinterpret_cast<CUcontext>(0x0dd);
  const Tensor x = world_->program.Make(5);
  ASSERT_EQ(world_->gpu.driver.cuCtxSetCurrent(other), CUDA_SUCCESS);
  ASSERT_TRUE(world_->Launch(**plan, x));
  CUcontext current = nullptr;
  ASSERT_EQ(world_->gpu.driver.cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, other);
  EXPECT_EQ(world_->gpu.contexts_of_launches,
            std::set<CUcontext>{world_->gpu.context});
  EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
}

TEST_F(CudaBackendTest, OneOpRunsAgainByItself) {
  auto plan = world_->Build([this](SimulatedProgram& p, Tensor x) {
    const Tensor a = p.TwiceAdd(x, world_->weight);
    p.Negate(a);
    return p.Scale(a, 2);
  });
  ASSERT_TRUE(plan) << plan.error().message();
  const Tensor x = world_->program.Make(5);
  ASSERT_TRUE(world_->Launch(**plan, x));
  ASSERT_TRUE((*plan)->instance(0).executor().LaunchOp(0));
  const ValueId a = (*plan)->trace().ops[0].results[0].value;
  const auto* data =
      reinterpret_cast<float*>((*plan)->instance(0).binding().origin(a));
  EXPECT_EQ(data[1], 2 * x.data()[1] + world_->weight.data()[1]);
  EXPECT_TRUE((*plan)->instance(0).executor().Touches(0, a));
  EXPECT_TRUE((*plan)->instance(0).executor().Touches(1, a));
  EXPECT_FALSE((*plan)->instance(0).executor().Touches(
      1, (*plan)->trace().ops[2].results[0].value));
}

TEST_F(CudaBackendTest, VerdictNamesTheComparisonsThatDiffered) {
  auto plan = world_->Build(MixedStep(world_->weight));
  ASSERT_TRUE(plan) << plan.error().message();
  Executor& executor = (*plan)->instance(0).executor();
  constexpr int64_t kSizes[] = {SimulatedProgram::kElements};
  constexpr int64_t kStrides[] = {1};
  const kernels::Layout layout =
      kernels::MakeLayout(kSizes, kStrides, sizeof(float));
  const Tensor same = world_->program.Make(1);
  const Tensor other = world_->program.Make(2);
  const uint64_t x = same.base;
  constexpr Executor::Alike bits;

  ASSERT_TRUE(executor.BeginComparing());
  ASSERT_TRUE(executor.Compare(x, x, layout, bits, 4));
  ASSERT_TRUE(executor.EndComparing());
  auto verdict = executor.Poll(Executor::Patience::kPoll);
  ASSERT_TRUE(verdict && verdict->has_value());
  EXPECT_THAT((*verdict)->differing, ::testing::IsEmpty());

  world_->gpu.streams.SetPace(SimulatedStreams::Pace::kByHand);
  ASSERT_TRUE(executor.BeginComparing());
  ASSERT_TRUE(executor.Compare(x, x, layout, bits, 4));
  ASSERT_TRUE(executor.Compare(x, other.base, layout, bits, 6));
  ASSERT_TRUE(
      executor.Compare(x, other.base, layout, {.in_every_bit = false}, 0));
  ASSERT_TRUE(executor.EndComparing());
  verdict = executor.Poll(Executor::Patience::kPoll);
  ASSERT_TRUE(verdict);
  EXPECT_FALSE(verdict->has_value());
  verdict = executor.Poll(Executor::Patience::kWait);
  ASSERT_TRUE(verdict && verdict->has_value());
  EXPECT_THAT((*verdict)->differing, ::testing::ElementsAre(0u, 6u));
  EXPECT_TRUE((*verdict)->Differs(6));
  EXPECT_FALSE((*verdict)->Differs(4));
}

#ifdef REPRISE_MEASURE
TEST_F(CudaBackendTest, SkippedLaunchesComputeNothing) {
  const Step step = MixedStep(world_->weight);
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  const Tensor x = world_->program.Make(5);
  world_->skip_launches = true;
  ASSERT_TRUE(world_->Launch(**plan, x));
  EXPECT_EQ(world_->gpu.graph_launches, 0);
  world_->skip_launches = false;
  ASSERT_TRUE(world_->Launch(**plan, x));
  EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
}
#endif

TEST_F(CudaBackendTest, OpThatReadsToTheHostIsRefused) {
  const auto trace = world_->Record(
      Backend::Recording::kFirst,
      [](SimulatedProgram& p, Tensor x) {
        p.First(x);
        return x;
      },
      world_->program.Make(1));
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().message(), HasSubstr("cuMemcpyDtoHAsync"));
}

TEST_F(CudaBackendTest, OpOfWhichNoLaunchIsSeenIsRefused) {
  const Step adds = [&](SimulatedProgram& p, Tensor x) {
    return p.Add(x, world_->weight);
  };
  EXPECT_TRUE(world_->Record(Backend::Recording::kFirst, adds,
                             world_->program.Make(1)));
  world_->launches_unseen = true;
  const auto unseen =
      world_->Record(Backend::Recording::kFirst, adds, world_->program.Make(1));
  ASSERT_FALSE(unseen);
  EXPECT_THAT(unseen.error().message(), HasSubstr("no launch of it was seen"));
}

TEST_F(CudaBackendTest, RelocatedPassRunsInAPrivatePool) {
  ASSERT_TRUE(world_->backend->StartRecording(Backend::Recording::kFirst, 0));
  EXPECT_EQ(world_->frontend.open_pools, 0);
  world_->backend->StopRecording();
  ASSERT_TRUE(
      world_->backend->StartRecording(Backend::Recording::kRelocated, 0));
  EXPECT_EQ(world_->frontend.open_pools, 1);
  EXPECT_TRUE(world_->recorder->active());
  world_->backend->StopRecording();
  EXPECT_EQ(world_->frontend.open_pools, 0);
  EXPECT_FALSE(world_->recorder->active());
  world_->frontend.pool_fails = true;
  EXPECT_FALSE(
      world_->backend->StartRecording(Backend::Recording::kRelocated, 0));
  EXPECT_FALSE(world_->recorder->active());
  EXPECT_EQ(world_->frontend.open_pools, 0);
}

TEST_F(CudaBackendTest, WhereAnotherRecorderIsActiveNothingIsRecorded) {
  const auto other =
      device::LaunchRecorder::Create(world_->gpu.driver, world_->gpu.cupti);
  ASSERT_TRUE(other->Start(world_->gpu.stream));
  const base::Status started =
      world_->backend->StartRecording(Backend::Recording::kRelocated, 0);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), base::Code::kUnavailable);
  EXPECT_EQ(world_->frontend.open_pools, 0);
}

TEST_F(CudaBackendTest, CapturedStreamIsSeen) {
  EXPECT_FALSE(world_->backend->Capturing());
  world_->gpu.capturing = true;
  EXPECT_TRUE(world_->backend->Capturing());
  world_->gpu.capturing = false;
  // Who knows what the stream is doing: stand aside.
  world_->gpu.FailAfter(0);
  EXPECT_TRUE(world_->backend->Capturing());
}

// Another thread captures, in the mode that forbids the most.
TEST_F(CudaBackendTest, NoPlanDisturbsACaptureFromItsBuildToItsEnd) {
  const Step step = MixedStep(world_->weight);
  const Tensor x = world_->program.Make(5);
  auto first =
      world_->Record(Backend::Recording::kFirst, step, world_->program.Make(1));
  ASSERT_TRUE(first) << first.error().message();
  auto second = world_->Record(Backend::Recording::kRelocated, step, x);
  ASSERT_TRUE(second) << second.error().message();
  world_->gpu.capturing = true;
  {
    auto built = world_->Build(*std::move(first), **second);
    ASSERT_TRUE(built) << built.error().message();
    Executor& executor = (*built)->instance(0).executor();
    ASSERT_TRUE(executor.BeginComparing());
    ASSERT_TRUE(executor.EndComparing());
    ASSERT_TRUE(executor.Poll(Executor::Patience::kPoll));
    ASSERT_TRUE(executor.Poll(Executor::Patience::kWait));
  }
  EXPECT_EQ(world_->gpu.broken_captures, 0);
}

TEST_F(CudaBackendTest, ArenaOverItsBudgetIsNotBuilt) {
  CudaBackend::Options options = World::DefaultOptions();
  options.max_arena_bytes = 600;
  world_.emplace(options);
  const auto plan = world_->Build(MixedStep(world_->weight));
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(), HasSubstr("max_arena_bytes=600"));
}

TEST_F(CudaBackendTest, WithoutMemoryOrComparisonNothingIsBuilt) {
  world_->frontend.allocations_left = 0;
  auto plan = world_->Build(MixedStep(world_->weight));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), base::Code::kResourceExhausted);
  world_->frontend.allocations_left = 100;
  world_->compare_fails = true;
  plan = world_->Build(MixedStep(world_->weight));
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(), HasSubstr("no compare"));
  world_->compare_fails = false;
  EXPECT_TRUE(world_->Build(MixedStep(world_->weight)));
  EXPECT_EQ(world_->gpu.objects(), 0u);
}

// A caching allocator gives a result the memory that a larger temporary of the
// same op had. Where both move together nothing tells them apart, and the
// temporary's launches still need its room.
TEST_F(CudaBackendTest, TemporaryWhoseMemoryBecameTheResultKeepsItsRoom) {
  const Step step = [](SimulatedProgram& p, Tensor x) {
    const Tensor a = p.Scale(x, 2);
    return p.CloneAfterLargeTemporary(a);
  };
  auto plan = world_->Build(step);
  ASSERT_TRUE(plan) << plan.error().message();
  const Tensor x = world_->program.Make(5);
  ASSERT_TRUE(world_->Launch(**plan, x));
  EXPECT_TRUE(world_->frontend.memory.GuardsAreIntact())
      << "a replay wrote past the end of its arena";
  EXPECT_EQ(world_->ResultOf(**plan), ValuesOf(step(world_->program, x)));
}

// The same where the result found other memory in one of the recordings.
TEST_F(CudaBackendTest, TemporaryWhoseMemoryWasReusedOnceStaysApart) {
  const Step step = [](SimulatedProgram& p, Tensor x) {
    const Tensor a = p.Scale(x, 2);
    return p.CloneAfterLargeTemporary(a);
  };
  auto first =
      world_->Record(Backend::Recording::kFirst, step, world_->program.Make(1));
  ASSERT_TRUE(first) << first.error().message();
  const Tensor x = world_->program.Make(2);
  // One for the first op, one for the result of the second.
  const Tensor spare[] = {world_->program.Make(0), world_->program.Make(0)};
  for (const Tensor& tensor : spare) world_->program.Drop(tensor);
  auto second = world_->Record(Backend::Recording::kRelocated, step, x);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ((*first)->ops[1].temporaries[0].address,
            (*first)->values.back().origin);
  EXPECT_NE((*second)->ops[1].temporaries[0].address,
            (*second)->values.back().origin);
  auto built = world_->Build(*std::move(first), **second);
  ASSERT_TRUE(built) << built.error().message();
  Plan& plan = **built;
  ASSERT_TRUE(world_->Launch(plan, x));
  EXPECT_TRUE(world_->frontend.memory.GuardsAreIntact());
  EXPECT_EQ(world_->ResultOf(plan), ValuesOf(step(world_->program, x)));
}

// Calls whose failure takes nothing away: they end something, they name
// something for people, or they ask for a mode that only others profit from.
bool IsHarmless(const std::string& call) {
  static const std::set<std::string> kHarmless = {
      "cuThreadExchangeStreamCaptureMode",
      "cuGraphDestroy",
      "cuGraphExecDestroy",
      "cuMemFree",
      "cuMemFreeHost",
      "cuEventDestroy",
      "cuStreamDestroy",
      "cuFuncGetName",
  };
  return kHarmless.contains(call);
}

// All that a plan goes through, from its recording to its end.
base::Status RunAll(World& world) {
  const Step step = MixedStep(world.weight);
  REPRISE_ASSIGN_OR_RETURN(const std::unique_ptr<Plan> plan, world.Build(step));
  const Tensor x = world.program.Make(5);
  REPRISE_RETURN_IF_ERROR(world.Launch(*plan, x));
  Executor& executor = plan->instance(0).executor();
  REPRISE_RETURN_IF_ERROR(executor.BeginComparing());
  for (size_t k = 0; k < plan->trace().ops.size(); ++k) {
    REPRISE_RETURN_IF_ERROR(executor.LaunchOp(k));
  }
  REPRISE_RETURN_IF_ERROR(executor.EndComparing());
  REPRISE_ASSIGN_OR_RETURN(auto verdict,
                           executor.Poll(Executor::Patience::kPoll));
  REPRISE_ASSIGN_OR_RETURN(verdict, executor.Poll(Executor::Patience::kWait));
  EXPECT_TRUE(verdict.has_value() && verdict->differing.empty());
  // Whatever failed and was not told did no harm.
  EXPECT_EQ(world.ResultOf(*plan), ValuesOf(step(world.program, x)));
  return {};
}

TEST(CudaBackendFailureTest, EveryDriverCallMayFailOnce) {
  std::set<std::string> failed;
  for (int calls = 0;; ++calls) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    World world;
    world.gpu.FailAfter(calls);
    const base::Status status = RunAll(world);
    const std::string call = world.gpu.failed;
    if (call.empty()) {
      EXPECT_TRUE(status) << status.error().message();
      break;
    }
    failed.insert(call);
    EXPECT_EQ(world.gpu.objects(), 0u) << call;
    EXPECT_FALSE(world.recorder->active()) << call;
    EXPECT_EQ(world.frontend.open_pools, 0) << call;
    EXPECT_TRUE(world.frontend.memory.GuardsAreIntact()) << call;
    // What is no copy's may be memory then.
    if (call == "cuPointerGetAttribute") continue;
    if (IsHarmless(call)) {
      EXPECT_TRUE(status) << call << ": " << status.error().message();
    } else {
      EXPECT_FALSE(status) << call;
    }
    ASSERT_LT(calls, 10'000);
  }
  EXPECT_GT(failed.size(), 20u);
}

// After a failure the same world can do it all.
TEST(CudaBackendFailureTest, FailureIsNotSticky) {
  for (int calls = 0;; calls += 7) {
    SCOPED_TRACE(testing::Message() << "after " << calls << " calls");
    World world;
    world.gpu.FailAfter(calls);
    (void)RunAll(world);
    if (world.gpu.failed.empty()) break;
    const base::Status again = RunAll(world);
    EXPECT_TRUE(again) << world.gpu.failed << ": " << again.error().message();
  }
}

}  // namespace
}  // namespace reprise::engine
