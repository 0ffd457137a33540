#include "bindings/torch/region/tape_cache.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "bindings/torch/base/inline_buffer.h"
#include "bindings/torch/base/plain_tensor.h"
#include "cache/signature.h"

namespace reprise::bindings {
namespace {

// Uses of the cache after which a use counts half: for each tape that is kept.
constexpr double kTurns = 8;

std::atomic<size_t> g_bytes{0};

void AddWords(at::IntArrayRef sizes, WordBuffer& words) {
  words.Push(sizes.size());
  for (const int64_t size : sizes) words.Push(static_cast<uint64_t>(size));
}

}  // namespace

uint64_t TapeCache::FormsOf(std::span<const at::Tensor> tensors,
                            bool with_offsets) {
  WordBuffer words;
  words.Push(with_offsets ? 1 : 0);
  for (const at::Tensor& tensor : tensors) {
    // As in TensorForm, others have neither sizes nor offsets.
    const bool plain = ArePlain(tensor.key_set());
    AddWords(plain ? tensor.sizes() : at::IntArrayRef(), words);
    if (with_offsets) {
      words.Push(plain ? static_cast<uint64_t>(tensor.storage_offset()) : 0);
    }
  }
  return cache::HashWords(words.span()).lo;
}

uint64_t TapeCache::FormsOf(const Tape& tape) {
  const TapeRecord& record = tape.record();
  const bool with_offsets = record.placement.fixed_offsets;
  WordBuffer words;
  words.Push(with_offsets ? 1 : 0);
  for (const int32_t reg : record.inputs) {
    const TensorForm& form = record.registers[static_cast<size_t>(reg)].form;
    AddWords(form.sizes, words);
    if (with_offsets) words.Push(static_cast<uint64_t>(form.storage_offset));
  }
  return cache::HashWords(words.span()).lo;
}

void TapeCache::Index(CachedTape& cached) {
  cached.forms = FormsOf(*cached.tape);
  by_forms_.emplace(cached.forms, &cached);
  if (cached.tape->record().placement.fixed_offsets) ++with_offsets_;
}

void TapeCache::RemoveFromIndex(const CachedTape& cached) {
  const auto [begin, end] = by_forms_.equal_range(cached.forms);
  by_forms_.erase(std::find_if(
      begin, end, [&](const auto& each) { return each.second == &cached; }));
  if (cached.tape->record().placement.fixed_offsets) --with_offsets_;
}

size_t TapeCache::bytes() { return g_bytes.load(std::memory_order_relaxed); }

CachedTape* TapeCache::Find(int64_t name) {
  if (last_ != nullptr && last_->name == name) return last_;
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : found->second.get();
}

TapeCache::Added TapeCache::Add(std::shared_ptr<const Tape> tape) {
  const int64_t name = next_name_++;
  CachedTape& cached =
      *all_.emplace(name, std::make_unique<CachedTape>()).first->second;
  cached.name = name;
  Replace(cached, std::move(tape));
  NoteRun(cached);
  return {&cached, MakeRoom(cached)};
}

void TapeCache::Replace(CachedTape& cached, std::shared_ptr<const Tape> tape) {
  g_bytes.fetch_sub(cached.bytes, std::memory_order_relaxed);
  if (cached.tape != nullptr) RemoveFromIndex(cached);
  cached.tape = std::move(tape);
  Index(cached);
  cached.bytes = cached.tape->record().Bytes();
  g_bytes.fetch_add(cached.bytes, std::memory_order_relaxed);
}

double TapeCache::ValueOf(const CachedTape& cached) const {
  if (cached.used == clock_) return cached.uses;  // again and again
  const double turns = static_cast<double>(clock_ - cached.used) /
                       static_cast<double>(std::max(all_.size(), kFew));
  return cached.uses * std::exp2(-turns / kTurns);
}

void TapeCache::NoteUse(CachedTape& cached) {
  cached.uses = ValueOf(cached) + 1;
  cached.used = ++clock_;
}

void TapeCache::NoteRun(CachedTape& cached) {
  NoteUse(cached);
  last_ = &cached;
}

bool TapeCache::MakeRoom(const CachedTape& added) {
  if (all_.size() <= kFew ||
      (all_.size() <= kFewUntrusted && bytes() <= budget_)) {
    return false;
  }
  bool dropped = false;
  std::vector<CachedTape*> untrusted;
  for (const auto& [name, cached] : all_) {
    if (!cached->trusted && cached.get() != &added) {
      untrusted.push_back(cached.get());
    }
  }
  const auto trusted = [&] { return all_.size() - untrusted.size() - 1; };
  while (untrusted.size() > std::max(trusted(), kFewUntrusted) ||
         (all_.size() > kFew && bytes() > budget_)) {
    // What is added is not trusted either, and has the quarter with the others.
    if (trusted() == 0 || 3 * untrusted.size() >= trusted()) {
      const size_t which = random_() % untrusted.size();
      std::swap(untrusted[which], untrusted.back());
      Drop(*untrusted.back());
      untrusted.pop_back();
      dropped = true;
      continue;
    }
    CachedTape* least = nullptr;
    for (const auto& [name, cached] : all_) {
      if (cached->trusted &&
          (least == nullptr || ValueOf(*cached) < ValueOf(*least))) {
        least = cached.get();
      }
    }
    Drop(*least);
    dropped = true;
  }
  return dropped;
}

void TapeCache::Drop(CachedTape& cached) {
  g_bytes.fetch_sub(cached.bytes, std::memory_order_relaxed);
  RemoveFromIndex(cached);
  if (last_ == &cached) last_ = nullptr;
  dropped_.push_back(cached.name);
  all_.erase(cached.name);
}

void TapeCache::Clear() {
  for (const auto& [name, cached] : all_) {
    g_bytes.fetch_sub(cached->bytes, std::memory_order_relaxed);
    dropped_.push_back(name);
  }
  by_forms_.clear();
  with_offsets_ = 0;
  last_ = nullptr;
  all_.clear();
}

std::vector<int64_t> TapeCache::TakeDropped() {
  return std::exchange(dropped_, {});
}

}  // namespace reprise::bindings
