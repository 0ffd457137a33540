// The tapes that are kept for arguments of one structure, and which of them go.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_CACHE_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_stretches.h"

namespace reprise::bindings {

class RegionHistory;

// A tape, and what has become of it. RegionVariants fills in the first members,
// and the cache the others.
struct CachedTape {
  std::shared_ptr<const Tape> tape;
  std::shared_ptr<TapeStretches> stretches = {};  // of this very tape
  std::vector<std::shared_ptr<RegionHistory>> histories = {};
  bool trusted = false;
  uint64_t runs = 0;  // since it was last recorded
  uint64_t until_sample = 0;

  int64_t name = 0;
  uint64_t forms = 0;  // hashed: sizes of its inputs, and offsets that count
  size_t bytes = 0;
  // When it was used last, in uses of the cache; and how often before that, of
  // which older uses count less.
  uint64_t used = 0;
  double uses = 0;
};

// Tapes are found by the sizes of their inputs, so that a call does not look at
// all of them.
//
// All caches of the process share one budget of bytes. Where a tape is added
// beyond it, its cache drops others. Of a byte of any tape a run saves about as
// much, so a tape is worth what its uses are. Where more sizes take turns than
// there is room for, no tape may go just because it is the oldest: it would be
// the next one that is asked for. So uses count for eight turns of all that are
// kept. Tapes that are not trusted have had no time to be used: they have a
// quarter of the cache to themselves, in which they go at random.
//
// Not thread-safe, but for the budget.
class TapeCache {
 public:
  // So many are kept whatever they take.
  static constexpr size_t kFew = 16;
  // Not trusted, or as many as are trusted.
  static constexpr size_t kFewUntrusted = 256;
  static constexpr size_t kBudget = size_t{256} << 20;

  explicit TapeCache(size_t budget = kBudget) : budget_(budget) {}
  ~TapeCache() { Clear(); }
  TapeCache(const TapeCache&) = delete;
  TapeCache& operator=(const TapeCache&) = delete;

  // `visit` is given those whose inputs may have these forms, in any order.
  template <typename Visit>
  void ForEach(std::span<const at::Tensor> tensors, Visit visit) const {
    if (all_.size() <= kFewToLookAt) {
      for (const auto& [name, cached] : all_) visit(*cached);
      return;
    }
    const auto visit_all = [&](uint64_t forms) {
      const auto [begin, end] = by_forms_.equal_range(forms);
      for (auto each = begin; each != end; ++each) visit(*each->second);
    };
    visit_all(FormsOf(tensors, /*with_offsets=*/false));
    if (with_offsets_ != 0) visit_all(FormsOf(tensors, /*with_offsets=*/true));
  }
  // Null: it has gone.
  CachedTape* Find(int64_t name);
  // The tape that was run or added last; null: it has gone.
  std::shared_ptr<const Tape> last() const {
    return last_ == nullptr ? nullptr : last_->tape;
  }
  size_t size() const { return all_.size(); }
  uint64_t uses() const { return clock_; }

  // Whether another one had to go for it.
  struct Added {
    CachedTape* tape = nullptr;
    bool dropped = false;
  };
  Added Add(std::shared_ptr<const Tape> tape);
  // In place of the tape that was recorded before, for inputs of the same form.
  void Replace(CachedTape& cached, std::shared_ptr<const Tape> tape);
  void NoteUse(CachedTape& cached);
  void NoteRun(CachedTape& cached);
  void Clear();
  // Names of those that have gone since this was asked last.
  std::vector<int64_t> TakeDropped();

  // What all caches keep.
  static size_t bytes();

 private:
  // So few are looked at one by one.
  static constexpr size_t kFewToLookAt = 8;

  static uint64_t FormsOf(std::span<const at::Tensor> tensors,
                          bool with_offsets);
  static uint64_t FormsOf(const Tape& tape);

  void Index(CachedTape& cached);
  void RemoveFromIndex(const CachedTape& cached);

  bool MakeRoom(const CachedTape& added);
  void Drop(CachedTape& cached);
  double ValueOf(const CachedTape& cached) const;

  const size_t budget_;
  std::unordered_map<int64_t, std::unique_ptr<CachedTape>> all_;  // by name
  std::unordered_multimap<uint64_t, CachedTape*> by_forms_;
  size_t with_offsets_ = 0;  // tapes whose inputs have to begin where they did
  CachedTape* last_ = nullptr;
  int64_t next_name_ = 1;
  uint64_t clock_ = 0;  // uses
  std::vector<int64_t> dropped_;
  std::minstd_rand random_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_CACHE_H_
