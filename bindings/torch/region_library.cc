#include "bindings/torch/region_library.h"

#include <ATen/Context.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/torch/plain_tensor.h"
#include "bindings/torch/torch_runtime.h"
#include "bindings/torch/word_watch.h"

namespace reprise::bindings {
namespace {

// What Python names by numbers, which are given once each.
template <typename T>
class Registry {
 public:
  int64_t Add(std::shared_ptr<T> what) {
    const std::lock_guard lock(mutex_);
    all_.emplace(++last_, std::move(what));
    return last_;
  }
  // Null: there is none, now.
  std::shared_ptr<T> Find(int64_t name) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(name);
    return found != all_.end() ? found->second : nullptr;
  }
  void Remove(int64_t name) {
    std::shared_ptr<T> last;  // ends without the lock
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(name);
    if (found == all_.end()) return;
    last = std::move(found->second);
    all_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<T>> all_;  // guarded by mutex_
  int64_t last_ = 0;
};

Registry<RegionVariants>& Regions() {
  static auto* const regions = new Registry<RegionVariants>;
  return *regions;
}
Registry<WordWatch>& WordWatches() {
  static auto* const watches = new Registry<WordWatch>;
  return *watches;
}

// `check`: 1 records every call, -1 none of a trusted tape's.
int64_t MakeRegion(int64_t check) {
  auto region = std::make_shared<RegionVariants>();
  if (check > 0) region->SampleAlways();
  if (check < 0) region->SampleNever();
  return Regions().Add(std::move(region));
}
void DropRegion(int64_t name) { Regions().Remove(name); }

bool BeginRegion(int64_t name, std::vector<at::Tensor> tensors,
                 std::vector<double> numbers, std::vector<at::Tensor> watched) {
  const auto region = Regions().Find(name);
  return region != nullptr &&
         region->Begin(std::move(tensors), std::move(numbers),
                       std::move(watched));
}

// A verdict (RegionVariants::Verdict), the tape, its calls; and why, and where.
std::tuple<std::vector<int64_t>, std::vector<std::string>> EndRegion(
    int64_t name, const std::vector<at::Tensor>& outputs,
    const std::vector<int64_t>& computed) {
  const auto region = Regions().Find(name);
  RegionVariants::Learned learned;
  if (region != nullptr)
    learned = region->End(outputs, {computed.begin(), computed.end()});
  return {{static_cast<int64_t>(learned.verdict), learned.tape,
           static_cast<int64_t>(learned.calls)},
          {learned.reason, learned.place}};
}

bool AreOrdinary(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    return IsPlainTensor(*tensor.unsafeGetTensorImpl());
  });
}

void AbandonRegion(int64_t name) {
  if (const auto region = Regions().Find(name)) region->Abandon();
}

int64_t WatchWords(const std::vector<int64_t>& addresses) {
  return WordWatches().Add(std::make_shared<WordWatch>(addresses));
}
// 0: there is no such watch.
int64_t WatchAnew(int64_t name) {
  const auto watch = WordWatches().Find(name);
  return watch == nullptr
             ? 0
             : WordWatches().Add(std::make_shared<WordWatch>(watch->Anew()));
}
void UnwatchWords(int64_t name) { WordWatches().Remove(name); }

WordWatch::Dicts DictsOf(bool given) {
  return given ? WordWatch::Dicts::kGiven : WordWatch::Dicts::kOfCode;
}

bool MayHaveChanged(int64_t watch) {
  if (watch == 0) return false;
  const auto watched = WordWatches().Find(watch);
  return watched == nullptr || watched->Changed();
}

}  // namespace

RegionCall RunRegion(int64_t region, int64_t watch, int64_t given_watch,
                     const TapeInputs& inputs) {
  if (!IsOrdinary(inputs.tensors)) return {};  // nothing is done for its sake
  if (TorchRuntime::Active() == nullptr && at::hasCUDA()) {
    return {.step = RegionCall::kInactive};
  }
  if (MayHaveChanged(watch)) return {.step = RegionCall::kLook};
  if (MayHaveChanged(given_watch)) return {.step = RegionCall::kLookGiven};
  const auto variants = Regions().Find(region);
  if (variants == nullptr) return {};
  RegionVariants::Ran ran = variants->Run(inputs);
  return {static_cast<int64_t>(ran.step), ran.tape, std::move(ran.outputs)};
}

}  // namespace reprise::bindings

// torch.ops.reprise, what regions call. Regions and watches are named by
// numbers.
TORCH_LIBRARY_FRAGMENT(reprise, library) {
  namespace b = reprise::bindings;
  library.def("make_region(int check) -> int", &b::MakeRegion);
  library.def("drop_region(int region) -> ()", &b::DropRegion);
  library.def("region_function() -> int", &b::RegionFunction);
  library.def(
      "begin_region(int region, Tensor[] tensors, float[] numbers, Tensor[] "
      "watched) -> bool",
      &b::BeginRegion);
  library.def(
      "end_region(int region, Tensor[] outputs, int[] computed) -> (int[], "
      "str[])",
      &b::EndRegion);
  library.def("abandon_region(int region) -> ()", &b::AbandonRegion);
  library.def("are_ordinary(Tensor[] tensors) -> bool", &b::AreOrdinary);
  library.def("watch_words(int[] addresses) -> int", &b::WatchWords);
  library.def("watch_anew(int watch) -> int", &b::WatchAnew);
  library.def("unwatch_words(int watch) -> ()", &b::UnwatchWords);
  library.def("dict_watcher(bool given) -> int", [](bool given) {
    return b::WordWatch::DictWatcher(b::DictsOf(given));
  });
  library.def("dict_changes(bool given) -> int", [](bool given) {
    return b::WordWatch::DictChanges(b::DictsOf(given));
  });
}
