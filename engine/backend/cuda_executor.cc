#include "engine/backend/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/device/context_scope.h"
#include "engine/device/single_launch.h"
#include "engine/device/unique_handle.h"
#include "kernels/byte_runs.h"

namespace reprise::engine {
namespace {

// Segments that were launched in a row so often are joined.
constexpr uint32_t kTimesToJoin = 3;
constexpr size_t kMostRows = 16;
constexpr uint32_t kMostChained = 16;

// What `all`, in the order of ops, has of one of them.
template <typename Site>
auto Of(const std::vector<Site>& all, uint32_t op) {
  return std::ranges::equal_range(all, op, {}, &Site::op);
}

}  // namespace

CudaProgram::CudaProgram(std::shared_ptr<const Trace> trace,
                         LaunchProgram launches)
    : Program(std::move(trace)), work(std::move(launches)) {
  std::ranges::stable_sort(work.sites, {}, &ValueSite::value);
  sites_begin.assign(work.values + 1, 0);
  for (const ValueSite& site : work.sites) ++sites_begin[site.value + 1];
  for (uint32_t v = 0; v < work.values; ++v) {
    sites_begin[v + 1] += sites_begin[v];
  }
}

CudaExecutor::CudaExecutor(const CudaContext& context,
                           std::shared_ptr<const CudaProgram> program,
                           std::unique_ptr<VerdictFlags> flags)
    : context_(context),
      program_(std::move(program)),
      launches_(program_->work.launches),
      origins_(program_->work.values, 0),
      segment_of_(launches_.size(), 0),
      dirty_(launches_.size(), false),
      flags_(std::move(flags)) {}

base::Status CudaExecutor::MakeGraphs() {
  const device::LaunchRecorder::Hidden hidden;
  // The program may end the session's stream meanwhile.
  CUstream stream = nullptr;
  REPRISE_CU(*context_.driver, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const device::UniqueStream uploads(*context_.driver, stream);
  for (const Segment& segment : program_->segments) {
    SegmentGraph& made = segments_.emplace_back();
    made.first_launch = program_->work.op_begin[segment.first_op];
    const uint32_t end = program_->work.op_begin[segment.end_op];
    if (made.first_launch == end) continue;
    std::vector<const device::Launch*> launches;
    for (uint32_t i = made.first_launch; i < end; ++i) {
      launches.push_back(&launches_[i]);
      segment_of_[i] = static_cast<uint32_t>(segments_.size() - 1);
    }
    const auto order = program_->branches.Order(
        segment.first_op, segment.end_op, launches_, program_->work.op_begin);
    REPRISE_ASSIGN_OR_RETURN(
        made.graph,
        device::LaunchGraph::Create(*context_.driver, launches, uploads.get(),
                                    order ? &*order : nullptr));
  }
  // The session's stream knows nothing of this one.
  REPRISE_CU(*context_.driver, cuStreamSynchronize(uploads.get()));
  return {};
}

void CudaExecutor::Bind(ValueId value, uint64_t origin) {
  if (origins_[value] == origin) return;
  origins_[value] = origin;
  for (const ValueSite& site : program_->SitesOf(value)) {
    launches_[site.launch].SetWord(site.offset_bytes,
                                   origin + site.delta_bytes);
    MarkDirty(site.launch);
  }
}

void CudaExecutor::MarkDirty(uint32_t launch) {
  for (const Row& row : rows_) {
    if (row.joined != nullptr) row.joined->MarkDirty(launch);
  }
  if (segments_.empty() || dirty_[launch]) return;
  dirty_[launch] = true;
  SegmentGraph& segment = segments_[segment_of_[launch]];
  segment.dirty.push_back(launch - segment.first_launch);
}

Executor::Fit CudaExecutor::SetScalars(uint32_t op,
                                       std::span<const uint64_t> bits) {
  for (const ScalarCopy& copy : Of(program_->work.copies, op)) {
    if (bits[copy.slot] != bits[copy.of]) return Fit::kUntold;
  }
  for (const ScalarRounding& rounding : Of(program_->work.roundings, op)) {
    const ScalarSource& source = rounding.source;
    if (source.Encoded(bits[source.slot]) != rounding.encoded) {
      return Fit::kUntold;
    }
  }
  const auto sites = Of(program_->work.scalars, op);
  encoded_.clear();
  for (const ScalarSite& site : sites) {
    std::optional<uint64_t> word;
    bool outside = false;
    for (const ScalarSource& source : site.sources) {
      const std::optional<uint64_t> said = source.Encoded(bits[source.slot]);
      if (!said.has_value()) {
        outside = true;
        continue;
      }
      if (word.has_value() && *word != *said) return Fit::kUntold;
      word = said;
    }
    if (outside) return word.has_value() ? Fit::kUntold : Fit::kOutside;
    encoded_.push_back(*word);
  }
  auto word = encoded_.begin();
  for (const ScalarSite& site : sites) {
    std::byte* place = launches_[site.launch].image.data() + site.offset_bytes;
    const uint64_t bytes = *word++;
    if (std::memcmp(place, &bytes, site.width_bytes) == 0) continue;
    std::memcpy(place, &bytes, site.width_bytes);
    MarkDirty(site.launch);
  }
  return Fit::kBound;
}

void CudaExecutor::SetGenerator(uint32_t op, const GeneratorState& state) {
  for (const DrawSite& site : Of(program_->work.draws, op)) {
    device::Launch& launch = launches_[site.launch];
    const uint64_t word = site.WordAt(state);
    if (launch.Word(site.offset_bytes) == word) continue;
    launch.SetWord(site.offset_bytes, word);
    MarkDirty(site.launch);
  }
}

Executor::Progress CudaExecutor::LaunchSegment(size_t index,
                                               uint32_t first_op) {
  // A graph is launched whole or not at all.
  return {LaunchGraph(segments_[index]), first_op};
}

Executor::Progress CudaExecutor::LaunchSegments(
    size_t first, std::span<const Segment> segments) {
  Row* row = FindRow(first, segments.size());
  if (row != nullptr && row->joined != nullptr && row->joined->ready()) {
    return {LaunchJoined(*row->joined), segments.front().first_op};
  }
  Progress progress = Executor::LaunchSegments(first, segments);
  if (progress.status && row != nullptr) CountRow(*row, segments);
  return progress;
}

CudaExecutor::Row* CudaExecutor::FindRow(size_t first, size_t count) {
  if (count < 2 || context_.builds == nullptr) return nullptr;
  for (Row& row : rows_) {
    if (row.first == first && row.count == count) return &row;
  }
  if (rows_.size() == kMostRows) return nullptr;
  return &rows_.emplace_back(Row{.first = first, .count = count});
}

void CudaExecutor::CountRow(Row& row, std::span<const Segment> segments) {
  if (row.joined != nullptr || ++row.times < kTimesToJoin) return;
  const std::vector<uint32_t>& op_begin = program_->work.op_begin;
  const uint32_t begin = op_begin[segments.front().first_op];
  const uint32_t end = op_begin[segments.back().end_op];
  // A launch is in two graphs on average, at most.
  if (end - begin < 2 || joined_launches_ + (end - begin) > launches_.size()) {
    return;
  }
  joined_launches_ += end - begin;
  growth_bytes_ += (end - begin) * kBytesPerNode;
  row.joined = std::make_shared<JoinedSegments>(
      *context_.driver, context_.context, begin,
      std::span(launches_).subspan(begin, end - begin),
      program_->branches.Order(segments.front().first_op,
                               segments.back().end_op, launches_, op_begin),
      program_->library_frees);
  context_.builds->Post([joined = row.joined] { joined->Build(); });
}

base::Status CudaExecutor::BreakChain() {
  uint32_t& chained = *context_.chained_graphs;
  if (++chained <= kMostChained) return {};
  REPRISE_RETURN_IF_ERROR(flags_->Touch(context_.stream));
  chained = 1;
  return {};
}

base::Status CudaExecutor::LaunchJoined(JoinedSegments& joined) {
  if (SkipsLaunches()) return {};
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  REPRISE_RETURN_IF_ERROR(BreakChain());
  REPRISE_RETURN_IF_ERROR(joined.Launch(launches_, context_.stream));
  context_.recorder->Resting(static_cast<uint32_t>(joined.size()));
  return {};
}

base::Status CudaExecutor::LaunchGraph(SegmentGraph& segment) {
  if (segment.graph == nullptr) return {};
  if (SkipsLaunches()) return {};
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  for (uint32_t node : segment.dirty) {
    REPRISE_RETURN_IF_ERROR(segment.graph->Update(node));
    dirty_[segment.first_launch + node] = false;
  }
  segment.dirty.clear();
  REPRISE_RETURN_IF_ERROR(BreakChain());
  REPRISE_RETURN_IF_ERROR(segment.graph->Launch(context_.stream));
  context_.recorder->Resting(static_cast<uint32_t>(segment.graph->size()));
  return {};
}

base::Status CudaExecutor::LaunchOp(size_t op) {
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  const std::vector<uint32_t>& op_begin = program_->work.op_begin;
  for (uint32_t i = op_begin[op]; i < op_begin[op + 1]; ++i) {
    REPRISE_RETURN_IF_ERROR(
        device::Enqueue(*context_.driver, launches_[i], context_.stream));
  }
  return {};
}

bool CudaExecutor::Touches(size_t op, ValueId value) const {
  const uint32_t begin = program_->work.op_begin[op];
  const uint32_t end = program_->work.op_begin[op + 1];
  return std::ranges::any_of(program_->SitesOf(value),
                             [begin, end](const ValueSite& site) {
                               return site.launch >= begin && site.launch < end;
                             });
}

base::Status CudaExecutor::Copy(uint64_t to, uint64_t from,
                                const kernels::Layout& layout) {
  if (layout.elements() == 0) return {};
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  if (!kernels::IsDense(layout)) {
    return context_.compare->Copy(to, from, layout, context_.stream);
  }
  REPRISE_CU(*context_.driver,
             cuMemcpyDtoDAsync(to, from, layout.span_bytes(), context_.stream));
  return {};
}

base::Status CudaExecutor::CopyAll(std::span<const kernels::RangeCopy> copies) {
  if (SkipsLaunches()) return {};
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  return context_.compare->CopyAll(copies, context_.stream);
}

base::Status CudaExecutor::WaitFor(CUevent event) {
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  REPRISE_CU(*context_.driver, cuStreamWaitEvent(context_.stream, event, 0));
  return {};
}

base::Status CudaExecutor::BeginComparing() {
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  comparing_ = true;
  return flags_->Clear(context_.stream);
}

base::Status CudaExecutor::Compare(uint64_t eager, uint64_t replayed,
                                   const kernels::Layout& layout, Alike alike,
                                   uint32_t tag) {
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  kernels::DeviceCompare& compare = *context_.compare;
  const uint64_t flag = flags_->address(tag);
  return alike.in_every_bit
             ? compare.Enqueue(eager, replayed, layout, flag, tag,
                               context_.stream)
             : compare.EnqueueClose(eager, replayed, alike.other_run, layout,
                                    flag, tag, context_.stream);
}

base::Status CudaExecutor::EndComparing() {
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  comparing_ = false;
  return flags_->Read(context_.stream);
}

base::Result<std::optional<Verdict>> CudaExecutor::Poll(Patience patience) {
  const device::LaunchRecorder::Hidden hidden;
  const device::ContextScope scope(*context_.driver, context_.context);
  REPRISE_RETURN_IF_ERROR(scope.status());
  return flags_->Poll(patience);
}

}  // namespace reprise::engine
