#include "engine/cuda_backend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/device/context_scope.h"
#include "engine/device/cupti_attachment.h"
#include "engine/device/relaxed_capture.h"
#include "engine/explain_parameters.h"
#include "engine/layout.h"
#include "engine/verdict_flags.h"

namespace reprise::engine {
namespace {

// What a node of an executable graph is taken to cost in device memory, for the
// budget.
constexpr uint64_t kBytesPerNode = 8 * 1024;

std::vector<uint32_t> LaunchesByOp(const CudaProgram& program) {
  std::vector<uint32_t> launches;
  for (size_t k = 0; k + 1 < program.op_begin.size(); ++k) {
    launches.push_back(program.op_begin[k + 1] - program.op_begin[k]);
  }
  return launches;
}

}  // namespace

base::Status CudaBackend::StartRecording(Recording recording) {
  REPRISE_RETURN_IF_ERROR(
      context_.recorder->Start(context_.stream, context_.context));
  if (recording == Recording::kRelocated) {
    if (auto pool = frontend_->BeginPrivatePool(); !pool) {
      context_.recorder->Stop();
      return pool;
    }
    in_pool_ = true;
  }
  return {};
}

void CudaBackend::StopRecording() {
  if (in_pool_) frontend_->EndPrivatePool();
  in_pool_ = false;
  context_.recorder->Stop();
}

void CudaBackend::BeginOp(const OpView& op) {
  frontend_->BeginAllocations();
  context_.recorder->BeginOp();
  if (op.forks_streams) context_.recorder->LetOpFork();
}

std::string CudaBackend::EndOp(TracedOp& op) {
  device::RecordedLaunches recorded = context_.recorder->EndOp();
  op.launches = std::move(recorded.launches);
  for (const Allocation& allocation : frontend_->TakeAllocations()) {
    op.temporaries.push_back(allocation);
  }
  if (recorded.refusal.empty() && op.draws &&
      frontend_->Generator().seed != op.generator.seed) {
    return "seeds the generator";
  }
  return std::move(recorded.refusal);
}

void CudaBackend::Resting() {
  // What CUPTI does when it goes may end a capture.
  if (!device::CuptiAttachment::attached() || Capturing()) return;
  context_.recorder->Resting(0);
}

bool CudaBackend::Capturing() const {
  const device::Driver& driver = *context_.driver;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = driver.cuStreamIsCapturing(context_.stream, &status);
  if (result == CUDA_ERROR_INVALID_CONTEXT) [[unlikely]] {
    // On a thread that has not used CUDA yet.
    const device::ContextScope scope(driver, context_.context);
    result = driver.cuStreamIsCapturing(context_.stream, &status);
  }
  return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

tl::expected<BuiltPlan, BuildFailure> CudaBackend::Build(const Trace& first,
                                                         const Trace& second) {
  auto explained = ExplainParameters(first, second, [this](uint64_t address) {
    return frontend_->OwnsAddress(address);
  });
  if (!explained) return tl::unexpected<BuildFailure>(explained.error());
  if (second.memory != nullptr) second.memory->Narrow(explained->lasting);
  Effects effects = Effects::Of(first, second, Effects::Remake::kWhatLasts,
                                Draws::Ahead(first, second));
  std::vector<Segment> segments = CutSegments(
      effects, LaunchesByOp(explained->program), options_.segment_launches);
  const ArenaLayout layout =
      LayOut(first, explained->place_bytes,
             Lifetimes::Of(first, second, effects, segments));
  if (layout.size_bytes > options_.max_arena_bytes) {
    return tl::unexpected<BuildFailure>(
        {.error = TooLarge(layout.size_bytes, options_.max_arena_bytes),
         .op = std::nullopt,
         .split = HalfWay(first, explained->place_bytes)});
  }
  auto plan =
      Assemble(first, layout, std::move(segments), *std::move(explained));
  if (!plan) {
    return tl::unexpected<BuildFailure>({plan.error(), std::nullopt});
  }
  plan->effects = std::move(effects);
  plan->lasting = second.memory;
  return *std::move(plan);
}

base::Result<BuiltPlan> CudaBackend::Assemble(const Trace& trace,
                                              const ArenaLayout& layout,
                                              std::vector<Segment> segments,
                                              ExplainedProgram explained) {
  const device::Driver& driver = *context_.driver;
  const device::RelaxedCapture relaxed(driver);
  REPRISE_CU(driver, cuCtxSetCurrent(context_.context));
  REPRISE_ASSIGN_OR_RETURN(context_.compare, options_.compare());
  BuiltPlan plan;
  REPRISE_ASSIGN_OR_RETURN(plan.arena, frontend_->Allocate(std::max<uint64_t>(
                                           layout.size_bytes, 1)));
  plan.device = {&driver, context_.context, frontend_->keep_memory()};
  plan.segments = std::move(segments);
  plan.launches = static_cast<uint32_t>(explained.program.launches.size());
  plan.bytes = layout.size_bytes + plan.launches * kBytesPerNode;
  plan.mechanism = "graphs, patched by SetParams";
  const auto ops = static_cast<uint32_t>(trace.ops.size());
  REPRISE_ASSIGN_OR_RETURN(
      std::unique_ptr<VerdictFlags> flags,
      VerdictFlags::Create(driver, Executor::kTagsAnOp * ops));
  auto executor = std::make_unique<CudaExecutor>(
      context_, std::move(explained.program), std::move(flags));
  const uint64_t base = plan.arena.address();
  plan.places.assign(trace.values.size(), 0);
  for (size_t v = 0; v < trace.values.size(); ++v) {
    if (trace.values[v].external) {
      executor->Bind(static_cast<ValueId>(v), trace.values[v].origin);
    } else {
      plan.places[v] = base + layout.places[v];
      executor->Bind(static_cast<ValueId>(v), plan.places[v]);
    }
  }
  auto temporary = static_cast<ValueId>(trace.values.size());
  for (const std::vector<uint64_t>& offsets : layout.temporaries) {
    for (uint64_t offset : offsets) executor->Bind(temporary++, base + offset);
  }
  REPRISE_RETURN_IF_ERROR(executor->MakeGraphs(plan.segments));
  plan.movable = std::move(explained.movable);
  plan.place_bytes = std::move(explained.place_bytes);
  plan.notes = std::move(explained.notes);
  plan.executor = std::move(executor);
  return plan;
}

}  // namespace reprise::engine
