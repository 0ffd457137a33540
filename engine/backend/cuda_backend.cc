#include "engine/backend/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/backend/verdict_flags.h"
#include "engine/device/context_scope.h"
#include "engine/device/cupti_attachment.h"
#include "engine/device/relaxed_capture.h"
#include "engine/program/explain_parameters.h"
#include "engine/program/reach.h"

namespace reprise::engine {
namespace {

std::vector<uint32_t> LaunchesByOp(const LaunchProgram& program) {
  std::vector<uint32_t> launches;
  for (size_t k = 0; k + 1 < program.op_begin.size(); ++k) {
    launches.push_back(program.op_begin[k + 1] - program.op_begin[k]);
  }
  return launches;
}

// By value, externals that did not move: each op that writes one names it by
// its address, and nobody by where it ends.
std::vector<bool> NamedByWriters(const Trace& trace,
                                 const LaunchProgram& work) {
  std::set<std::pair<size_t, ValueId>> sites;  // op, value
  for (const ValueSite& site : work.pinned) {
    const auto next = std::upper_bound(work.op_begin.begin(),
                                       work.op_begin.end(), site.launch);
    sites.emplace(next - work.op_begin.begin() - 1, site.value);
  }
  std::vector<bool> named(trace.values.size(), true);
  for (size_t k = 0; k < trace.ops.size(); ++k) {
    for (const ValueRef& operand : trace.ops[k].operands) {
      if (operand.written && !sites.contains({k, operand.value})) {
        named[operand.value] = false;
      }
    }
  }
  for (const ValueId v : work.pinned_ends) named[v] = false;
  return named;
}

// A pass works on copies of private values: what names one becomes a site. All
// other externals that did not move stay where they are.
void PointAtCopies(const Effects& effects, LaunchProgram& work) {
  std::ranges::copy_if(work.pinned, std::back_inserter(work.sites),
                       [&effects](const ValueSite& site) {
                         return effects.is_private(site.value);
                       });
  work.pinned = {};
  work.pinned_ends = {};
}

// What calls of this thread have left on its stack. Kernels' parameters are
// made there, and where nobody writes them (padding, ends of arrays) they hold
// whatever was there before: addresses, often enough, that nothing explains.
[[gnu::noinline]] void ClearStackBelow() {
  std::array<std::byte, size_t{64} << 10> below;
  below.fill(std::byte{0});
  asm volatile("" : : "r"(below.data()) : "memory");  // it is all used
}

// A kernel that nobody saw would be left out of each replay, and no validation
// would miss it.
bool MustLaunch(const TracedOp& op) {
  const auto has_memory = [](const ResultSpec& result) {
    return result.kind == ResultSpec::Kind::kValue && result.storage_bytes > 0;
  };
  return !op.leaves_unwritten && std::ranges::any_of(op.results, has_memory);
}

}  // namespace

base::Status CudaBackend::StartRecording(Recording recording,
                                         uint64_t pass_bytes) {
  REPRISE_RETURN_IF_ERROR(
      context_.recorder->Start(context_.stream, context_.context));
  if (recording == Recording::kRelocated) {
    if (auto pool = frontend_->BeginPrivatePool(pass_bytes); !pool) {
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

base::Status CudaBackend::BeginOp(const OpView& op) {
  REPRISE_RETURN_IF_ERROR(context_.recorder->BeginOp());
  frontend_->BeginAllocations();
  if (op.forks_streams) context_.recorder->LetOpFork();
  ClearStackBelow();
  return {};
}

std::string CudaBackend::EndOp(TracedOp& op) {
  device::RecordedLaunches recorded = context_.recorder->EndOp();
  op.launches = std::move(recorded.launches);
  for (const Allocation& allocation : frontend_->TakeAllocations()) {
    op.temporaries.push_back(allocation);
  }
  if (recorded.refusal.empty() && op.generator.draws &&
      frontend_->Generator().seed != op.generator.before.seed) {
    return "seeds the generator";
  }
  if (recorded.refusal.empty() && op.launches.empty() && MustLaunch(op)) {
    return "makes something, and no launch of it was seen";
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

Backend::Explained CudaBackend::Explain(std::shared_ptr<const Trace> first,
                                        const Trace& second) {
  const Trace& trace = *first;
  if (first->library_frees != second.library_frees ||
      second.library_frees.outdated()) {
    return tl::unexpected<BuildFailure>(
        {.error = base::Error(base::Code::kUnavailable, LibraryFrees::kFreed),
         .op = std::nullopt,
         .outdated = true});
  }
  // Memory that a recording names may have gone back to the device since. Of
  // the first one's nobody knows what it was.
  const bool gone = first->memory_returned != frontend_->memory_returned();
  const auto is_address = [&](uint64_t address) {
    return frontend_->OwnsAddress(address) ||
           (second.memory != nullptr && second.memory->Knows(address));
  };
  auto explained = ExplainParameters(
      trace, second, is_address,
      [&](uint64_t address) { return gone || is_address(address); },
      &unwritten_);
  if (!explained) return tl::unexpected<BuildFailure>(explained.error());
  if (second.memory != nullptr) second.memory->Narrow(explained->lasting);
  LaunchProgram& work = explained->program;
  std::vector<Reach> reach;
  if (options_.branches) {
    auto found = ReachOf(trace, work, explained->lasting);
    if (!found) {
      return tl::unexpected<BuildFailure>({.error = found.error(), .op = {}});
    }
    reach = *std::move(found);
  }
  const std::vector<bool> named = NamedByWriters(trace, work);
  Effects effects = Effects::Of(trace, second, Effects::Remake::kWhatLasts,
                                Draws::Ahead(trace, second),
                                MostPrivate(options_.private_bytes), named);
  PointAtCopies(effects, work);
  auto program =
      std::make_shared<CudaProgram>(std::move(first), std::move(work));
  program->movable = std::move(explained->movable);
  program->effects = std::move(effects);
  program->place_bytes = std::move(explained->place_bytes);
  const auto arranged = Arrange(*program, second,
                                {.launches = LaunchesByOp(program->work),
                                 .reach = std::move(reach),
                                 .segment_launches = options_.segment_launches,
                                 .max_arena_bytes = options_.max_arena_bytes});
  if (!arranged) return tl::unexpected(arranged.error());
  program->lasting = second.memory;
  program->library_frees = second.library_frees;
  program->launches = static_cast<uint32_t>(program->work.launches.size());
  program->mechanism = "graphs, patched by SetParams";
  program->notes = std::move(explained->notes);
  program->host_bytes = trace.host_bytes + HostBytes(program->work.launches);
  return program;
}

base::Result<std::vector<Reach>> CudaBackend::ReachOf(
    const Trace& trace, const LaunchProgram& work,
    const std::vector<uint64_t>& lasting) const {
  const device::LaunchRecorder::Hidden hidden;
  const device::RelaxedCapture relaxed(*context_.driver);
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  const std::unordered_set<uint64_t> known(lasting.begin(), lasting.end());
  // What a library took from the driver is known to that alone; where it does
  // not answer, all may be addresses.
  return engine::ReachOf(trace, work, [&](uint64_t word) {
    unsigned type = 0;
    return known.contains(word) || frontend_->OwnsAddress(word) ||
           context_.driver->cuPointerGetAttribute(
               &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) !=
               CUDA_ERROR_INVALID_VALUE;
  });
}

base::Result<InstanceParts> CudaBackend::Instantiate(
    std::shared_ptr<const Program> explained, std::shared_ptr<Ledger> arena) {
  auto program = std::static_pointer_cast<const CudaProgram>(explained);
  const Trace& trace = *program->trace;
  const ArenaLayout& layout = program->layout;
  const device::Driver& driver = *context_.driver;
  // The driver knows what a function is while its library does.
  if (program->library_frees.may_end() && frontend_->LibraryIsFull()) {
    return base::Fail(base::Code::kUnavailable, LibraryFrees::kFreed);
  }
  REPRISE_ASSIGN_OR_RETURN(const LibraryFrees::Kept kept,
                           program->library_frees.Keep());
  const device::RelaxedCapture relaxed(driver);
  REPRISE_CU(driver, cuCtxSetCurrent(context_.context));
  REPRISE_ASSIGN_OR_RETURN(context_.compare, options_.compare());
  InstanceParts parts;
  parts.bytes = program->launches * kBytesPerNode;
  if (arena == nullptr) {
    REPRISE_ASSIGN_OR_RETURN(
        parts.arena,
        frontend_->Allocate(std::max<uint64_t>(layout.size_bytes, 1)));
    parts.device = Device();
    parts.bytes += layout.size_bytes;
  }
  parts.shared = std::move(arena);
  const auto ops = static_cast<uint32_t>(trace.ops.size());
  REPRISE_ASSIGN_OR_RETURN(
      std::unique_ptr<VerdictFlags> flags,
      VerdictFlags::Create(driver, Executor::kTagsAnOp * ops));
  const uint64_t base = parts.arena_address();
  parts.places = program->PlacesIn(base);
  auto executor = std::make_unique<CudaExecutor>(context_, std::move(program),
                                                 std::move(flags));
  for (ValueId v = 0; v < parts.places.size(); ++v) {
    executor->Bind(
        v, parts.places[v] != 0 ? parts.places[v] : trace.values[v].origin);
  }
  auto temporary = static_cast<ValueId>(trace.values.size());
  for (const std::vector<uint64_t>& offsets : layout.temporaries) {
    for (uint64_t offset : offsets) executor->Bind(temporary++, base + offset);
  }
  REPRISE_RETURN_IF_ERROR(executor->MakeGraphs());
  parts.executor = std::move(executor);
  return parts;
}

base::Result<Ledger::Handle> CudaBackend::MakeArena(uint64_t size_bytes,
                                                    size_t values) {
  const device::RelaxedCapture relaxed(*context_.driver);
  REPRISE_CU(*context_.driver, cuCtxSetCurrent(context_.context));
  REPRISE_ASSIGN_OR_RETURN(
      Block arena, frontend_->Allocate(std::max<uint64_t>(size_bytes, 1)));
  return Ledger::Create(std::move(arena), values, Device());
}

ArenaDevice CudaBackend::Device() const {
  return {context_.driver, context_.context, frontend_->keep_memory()};
}

}  // namespace reprise::engine
