#include "bindings/torch/region_library.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/base/word_watch.h"
#include "bindings/torch/observe/gpu_trace.h"
#include "bindings/torch/region/backward_inside.h"
#include "bindings/torch/region/host_counters.h"
#include "bindings/torch/region/region_node.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/region/tape_recorder.h"
#include "bindings/torch/registry.h"
#include "bindings/torch/runtime/torch_runtime.h"
#include "bindings/torch/runtime/unseen_use.h"

namespace reprise::bindings {
namespace {

Registry<RegionVariants>& Regions() {
  static auto* const regions = new Registry<RegionVariants>;
  return *regions;
}
// By the names that Python gives them; they end with their regions and nodes.
class Histories {
 public:
  void Add(const std::shared_ptr<RegionHistory>& history) {
    const std::lock_guard lock(mutex_);
    all_[history->name()] = history;
  }
  // Null: it has ended.
  std::shared_ptr<RegionHistory> Find(int64_t name) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(name);
    if (found == all_.end()) return nullptr;
    std::shared_ptr<RegionHistory> history = found->second.lock();
    if (history == nullptr) all_.erase(found);
    return history;
  }

  static Histories& Get() {
    static auto* const histories = new Histories;
    return *histories;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, std::weak_ptr<RegionHistory>> all_;
};

Registry<WordWatch>& WordWatches() {
  static auto* const watches = new Registry<WordWatch>;
  return *watches;
}

// `check`: 1 records every call, -1 none of a trusted tape's. `part`: TapePass.
// Recorders are told of waits, too, of which some operators' errors depend.
void TellOfEffects() {
  if (at::hasCUDA()) WatchGpuTrace();
  TapeRecorder::TellPythonOfEffects();
}

int64_t MakeRegion(int64_t check, int64_t part) {
  TorchRuntime::WatchForks();
  auto region = std::make_shared<RegionVariants>(static_cast<TapePass>(part));
  if (check > 0) region->SampleAlways();
  if (check < 0) region->SampleNever();
  return Regions().Add(std::move(region));
}
void DropRegion(int64_t name) { Regions().Remove(name); }
int64_t UsesOfRegion(int64_t name) {
  const auto region = Regions().Find(name);
  return region == nullptr ? 0 : static_cast<int64_t>(region->uses());
}

bool BeginRegion(int64_t name, int64_t owner, std::vector<at::Tensor> tensors,
                 std::vector<double> numbers, int64_t seen,
                 std::vector<at::Tensor> watched) {
  const auto region = Regions().Find(name);
  if (std::ranges::any_of(watched, HostCounters::IsHeldBy)) BeforeContents();
  return region != nullptr &&
         region->Begin(std::move(tensors), std::move(numbers),
                       std::move(watched), owner, static_cast<size_t>(seen));
}

// A verdict (RegionVariants::Verdict), the tape, its calls, whether they draw,
// whether some are not torch's own, whether they write outside, and how many
// read values; why, and where, and why no forward pass is to be recorded; of
// what was saved, behind so many outputs, which of the tape's it is; what is
// written outside; and tapes that have gone.
std::tuple<std::vector<int64_t>, std::vector<std::string>, std::vector<int64_t>,
           std::vector<at::Tensor>, std::vector<int64_t>>
EndRegion(int64_t name, const std::vector<at::Tensor>& outputs,
          const std::vector<int64_t>& computed, int64_t own) {
  const auto region = Regions().Find(name);
  RegionVariants::Learned learned;
  if (region != nullptr) {
    learned = region->End(outputs, {computed.begin(), computed.end()},
                          static_cast<size_t>(own));
  }
  return {
      {static_cast<int64_t>(learned.verdict), learned.tape,
       static_cast<int64_t>(learned.calls), learned.draws, learned.calls_others,
       learned.writes_outside, static_cast<int64_t>(learned.reads)},
      {learned.reason, learned.place, learned.no_forward_pass},
      {learned.saved.begin(), learned.saved.end()},
      std::move(learned.written),
      std::move(learned.dropped)};
}

void NoteArithmetic(int64_t name, const std::vector<int64_t>& words,
                    const std::vector<double>& values) {
  if (const auto region = Regions().Find(name)) {
    region->NoteArithmetic(NodesOf(words, values), values);
  }
}

// See RegionHistory::Parts; `leaves` are in the order of negative targets.
void KeepHistory(int64_t region, int64_t tape, int64_t name, int64_t outputs,
                 int64_t tracked, const std::vector<int64_t>& saved,
                 const std::vector<int64_t>& of_others,
                 std::vector<int64_t> targets,
                 const std::vector<at::Tensor>& leaves) {
  const auto variants = Regions().Find(region);
  if (variants == nullptr) return;
  RegionHistory::Parts parts{.name = name,
                             .outputs = static_cast<size_t>(outputs),
                             .tracked = static_cast<size_t>(tracked),
                             .saved = {saved.begin(), saved.end()},
                             .of_others = {of_others.begin(), of_others.end()},
                             .targets = std::move(targets),
                             .leaves = {},
                             .replayed = variants->backward()};
  for (const at::Tensor& leaf : leaves) {
    parts.leaves.emplace_back(leaf.getIntrusivePtr());
  }
  const auto history = std::make_shared<RegionHistory>(std::move(parts));
  Histories::Get().Add(history);
  variants->KeepHistory(tape, history);
}
bool HasHistory(int64_t name) { return Histories::Get().Find(name) != nullptr; }
int64_t ReplayedBackward(int64_t region) {
  const auto variants = Regions().Find(region);
  return variants == nullptr
             ? 0
             : static_cast<int64_t>(variants->backward()->load());
}

// That tape of the region's gives these contributions.
void KeepBackward(int64_t name, int64_t region, int64_t tape,
                  const std::vector<int64_t>& gives) {
  const auto history = Histories::Get().Find(name);
  auto variants = Regions().Find(region);
  if (history == nullptr || variants == nullptr) return;
  history->Keep(std::move(variants), tape, {gives.begin(), gives.end()});
}

// Contributions, and which these are; none: no tape fits.
std::tuple<std::vector<at::Tensor>, std::vector<int64_t>> ReplayBackward(
    int64_t name, std::vector<at::Tensor> saved, const at::Tensor& gradient) {
  const auto history = Histories::Get().Find(name);
  if (history == nullptr) return {};
  const auto all = history->Replay(std::move(saved), gradient);
  std::tuple<std::vector<at::Tensor>, std::vector<int64_t>> found;
  if (!all.has_value()) return found;
  for (size_t i = 0; i < all->size(); ++i) {
    if (!(*all)[i].defined()) continue;
    std::get<0>(found).push_back((*all)[i]);
    std::get<1>(found).push_back(static_cast<int64_t>(i));
  }
  return found;
}

// Whether hooks are set on nodes of autograd's, from those behind the outputs
// on to the one of that number.
bool HistoryHasHooks(const std::vector<at::Tensor>& outputs,
                     int64_t first_node) {
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> left;
  for (const at::Tensor& output : outputs) {
    left.push_back(output.grad_fn().get());
  }
  while (!left.empty()) {
    torch::autograd::Node* const node = left.back();
    left.pop_back();
    // Those of leaves have the largest number.
    if (node == nullptr || !seen.insert(node).second ||
        node->sequence_nr() == UINT64_MAX ||
        node->sequence_nr() < static_cast<uint64_t>(first_node)) {
      continue;
    }
    if (HasHooks(*node)) return true;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      left.push_back(edge.function.get());
    }
  }
  return false;
}

bool AreOrdinary(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    return IsPlainTensor(*tensor.unsafeGetTensorImpl());
  });
}

// Names of the arguments by whose values an operator decides; see tape_ops.h.
std::vector<std::string> DecidingArguments(const std::string& name,
                                           const std::string& overload) {
  std::vector<std::string> found;
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op.has_value()) return found;
  for (size_t i = 0; i < op->schema().arguments().size(); ++i) {
    if (DecidesByValues(*op, i)) {
      found.push_back(op->schema().arguments()[i].name());
    }
  }
  return found;
}

// TapeRecorder::Pause; "-": nobody records here.
std::string PauseRegion() { return TapeRecorder::Pause().value_or("-"); }

// Ordinary ones that fill their memory, of which no other tensor has a part,
// and without a history.
bool AreWhole(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    return IsPlainTensor(impl) && !tensor.requires_grad() &&
           impl.storage_offset() == 0 && tensor.storage().use_count() == 1 &&
           impl.is_non_overlapping_and_dense();
  });
}

// See TapeRecorder::Resume, and reprise::call_python for the others.
void ResumeRegion(int64_t function, const std::vector<at::Tensor>& read,
                  const std::vector<at::Tensor>& written,
                  const std::vector<at::Tensor>& results,
                  const std::string& reason) {
  const c10::IValue arguments[] = {function, read, written};
  const c10::IValue given[] = {results};
  TapeRecorder::Resume(arguments, given, reason);
}

void AbandonRegion(int64_t name, int64_t owner) {
  if (const auto region = Regions().Find(name)) region->Abandon(owner);
}

int64_t WatchWords(const std::vector<int64_t>& words,
                   const std::vector<int64_t>& dict_words) {
  return WordWatches().Add(std::make_shared<WordWatch>(words, dict_words));
}
// 0: there is no such watch.
int64_t WatchAnew(int64_t name) {
  const auto watch = WordWatches().Find(name);
  return watch == nullptr
             ? 0
             : WordWatches().Add(std::make_shared<WordWatch>(watch->Anew()));
}
void UnwatchWords(int64_t name) { WordWatches().Remove(name); }

std::vector<int64_t> DictWords(const std::vector<int64_t>& dicts) {
  std::vector<int64_t> words;
  words.reserve(dicts.size());
  for (const int64_t dict : dicts) words.push_back(WordWatch::DictWord(dict));
  return words;
}

bool MayHaveChanged(int64_t watch) {
  if (watch == 0) return false;
  const auto watched = WordWatches().Find(watch);
  return watched == nullptr || watched->Changed();
}

}  // namespace

std::shared_ptr<RegionVariants> FindRegion(int64_t name) {
  return Regions().Find(name);
}

RegionCall RunRegion(RegionVariants* region, int64_t watch, int64_t given_watch,
                     const TapeInputs& inputs, const Tape* held) {
  if (!IsOrdinary(inputs.tensors)) return {};  // nothing is done for its sake
  if (TorchRuntime::Forked()) return {.step = RegionCall::kForked};
  if (MayHaveChanged(watch)) return {.step = RegionCall::kLook};
  if (MayHaveChanged(given_watch)) return {.step = RegionCall::kLookGiven};
  if (TorchRuntime::Active() == nullptr && at::hasCUDA()) {
    return {.step = RegionCall::kInactive};
  }
  if (region == nullptr) return {};
  if (region->reads_contents()) BeforeContents();
  RegionVariants::Ran ran = region->Run(inputs, held);
  return {.step = static_cast<int64_t>(ran.step),
          .tape = ran.tape,
          .outputs = std::move(ran.outputs),
          .histories = std::move(ran.histories)};
}

}  // namespace reprise::bindings

// torch.ops.reprise, what regions call. Regions and watches are named by
// numbers.
TORCH_LIBRARY_FRAGMENT(reprise, library) {
  namespace b = reprise::bindings;
  library.def("make_region(int check, int part) -> int", &b::MakeRegion);
  library.def("drop_region(int region) -> ()", &b::DropRegion);
  library.def("region_functions() -> int", &b::RegionFunctions);
  library.def(
      "begin_region(int region, int owner, Tensor[] tensors, float[] numbers, "
      "int seen, Tensor[] watched) -> bool",
      &b::BeginRegion);
  library.def(
      "end_region(int region, Tensor[] outputs, int[] computed, int own) -> "
      "(int[], str[], int[], Tensor[], int[])",
      &b::EndRegion);
  library.def("tapes_have_room() -> bool",
              [] { return b::TapeCache::bytes() < b::TapeCache::kBudget; });
  library.def("uses_of_region(int region) -> int", &b::UsesOfRegion);
  library.def("note_arithmetic(int region, int[] nodes, float[] values) -> ()",
              &b::NoteArithmetic);
  library.def("take_read() -> int", &b::TapeRecorder::TakeRead);
  library.def("set_saving_functions(str[] names) -> ()",
              &b::BackwardInside::SetSavingFunctions);
  library.def("abandon_region(int region, int owner) -> ()", &b::AbandonRegion);
  library.def("deciding_arguments(str name, str overload) -> str[]",
              &b::DecidingArguments);
  library.def("pause_region() -> str", &b::PauseRegion);
  // Python's: see bindings/python/reprise/_handlers.py.
  library.def("behind_effects(str operator) -> ()");
  library.def("leaves_fork() -> bool");
  library.def("tell_of_effects() -> ()", &b::TellOfEffects);
  library.def("are_whole(Tensor[] tensors) -> bool", &b::AreWhole);
  library.def(
      "resume_region(int function, Tensor[] read, Tensor[] written, Tensor[] "
      "results, str reason) -> ()",
      &b::ResumeRegion);
  // Python's: a function that regions run in each call; see
  // bindings/python/reprise/_eager.py.
  library.def(
      "call_python(int function, Tensor[] read, Tensor(a!)[] written) -> "
      "Tensor[]");
  library.def(
      "keep_history(int region, int tape, int name, int outputs, int tracked, "
      "int[] saved, int[] of_others, int[] targets, Tensor[] leaves) -> ()",
      &b::KeepHistory);
  library.def("has_history(int name) -> bool", &b::HasHistory);
  library.def("replayed_backward(int region) -> int", &b::ReplayedBackward);
  library.def(
      "keep_backward(int name, int region, int tape, int[] gives) -> ()",
      &b::KeepBackward);
  library.def(
      "replay_backward(int name, Tensor[] saved, Tensor gradient) -> "
      "(Tensor[], int[])",
      &b::ReplayBackward);
  // Python's: see bindings/python/reprise/nodes/differentiable.py.
  library.def(
      "differentiate(int name, Tensor[] arguments, Tensor[] saved, Tensor "
      "gradient) -> (Tensor[], int[])");
  library.def("history_has_hooks(Tensor[] outputs, int first_node) -> bool",
              &b::HistoryHasHooks);
  library.def("are_ordinary(Tensor[] tensors) -> bool", &b::AreOrdinary);
}

// What regions look at in each call.
TORCH_LIBRARY_FRAGMENT(reprise, library) {
  namespace b = reprise::bindings;
  library.def("watch_words(int[] words, int[] dict_words) -> int",
              &b::WatchWords);
  library.def("watch_anew(int watch) -> int", &b::WatchAnew);
  library.def("unwatch_words(int watch) -> ()", &b::UnwatchWords);
  library.def("dict_watcher() -> int", &b::WordWatch::DictWatcher);
  library.def("dict_words(int[] dicts) -> int[]", &b::DictWords);
}

// Results may be conjugates, negatives or have names: they are looked at as
// they are, and are no copies.
TORCH_LIBRARY_FRAGMENT(reprise, library) {
  for (const char* const name : {"Conjugate", "Negative", "Named"}) {
    try {
      const c10::DispatchKey key = c10::parseDispatchKey(name);
      library.impl("end_region",
                   torch::dispatch(key, torch::CppFunction::makeFallthrough()));
    } catch (const c10::Error&) {  // a torch without such tensors
    }
  }
}
