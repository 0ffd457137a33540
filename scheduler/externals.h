// The storages that a pass of a trace took from outside after its head.

#ifndef REPRISE_SCHEDULER_EXTERNALS_H_
#define REPRISE_SCHEDULER_EXTERNALS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/trace/frontend.h"
#include "engine/trace/op.h"

namespace reprise::scheduler {

// In order of first use, each weakly held: a token here is never another
// storage's. `frontend` must outlive it. Single-thread. Moved-from: empty.
class Externals {
 public:
  explicit Externals(engine::Frontend* frontend) : frontend_(frontend) {}
  ~Externals() { Clear(); }
  Externals(Externals&& other) noexcept
      : frontend_(other.frontend_),
        storages_(std::exchange(other.storages_, {})) {}
  Externals& operator=(Externals&& other) noexcept {
    std::swap(frontend_, other.frontend_);
    std::swap(storages_, other.storages_);
    return *this;
  }

  // The storage must be alive.
  void Add(engine::StorageToken storage) {
    frontend_->Retain(storage);
    storages_.push_back(storage);
  }
  void Clear() {
    for (const engine::StorageToken storage : storages_) {
      frontend_->Release(storage);
    }
    storages_.clear();
  }

  size_t size() const { return storages_.size(); }
  engine::StorageToken operator[](size_t i) const { return storages_[i]; }
  bool Alive(size_t i) const { return frontend_->Alive(storages_[i]); }

 private:
  engine::Frontend* frontend_;
  std::vector<engine::StorageToken> storages_;
};

// What tells a trace from others of equal form: layers of a network, or models
// of one shape, differ in nothing but their weights. Single-thread.
class Identity {
 public:
  static constexpr size_t kFew = 2;

  explicit Identity(Externals first)
      : externals_(std::move(first)),
        varies_(externals_.size(), false),
        beside_(externals_.size(), false) {}

  // How another pass of equal form compares: how many storages are the same,
  // and how many of those that have never changed are others now although the
  // old ones are still alive.
  struct Likeness {
    size_t same = 0;
    size_t other = 0;
    size_t of = 0;
    // A pass that takes few is never told apart: its plan can bind them late.
    bool one() const { return same >= other || of <= kFew; }
    bool operator<(const Likeness& better) const {
      return same + better.other < better.same + other;
    }
  };
  Likeness Compare(const Externals& pass) const {
    Likeness likeness{.of = externals_.size()};
    for (size_t i = 0; i < externals_.size(); ++i) {
      if (varies_[i]) continue;
      if (externals_[i] == pass[i]) {
        ++likeness.same;
      } else if (externals_.Alive(i)) {
        ++likeness.other;
      }
    }
    return likeness;
  }

  size_t storages() const { return externals_.size(); }
  // Of the i-th: another one came while the one before was alive, so that it
  // lay elsewhere.
  bool IsBeside(size_t i) const { return beside_[i]; }

  // Such a pass was this trace's.
  void Follow(Externals pass) {
    for (size_t i = 0; i < externals_.size(); ++i) {
      if (externals_[i] == pass[i]) continue;
      varies_[i] = true;
      if (externals_.Alive(i)) beside_[i] = true;
    }
    externals_ = std::move(pass);
  }

 private:
  Externals externals_;
  std::vector<bool> varies_;  // has changed, once at least: an input
  std::vector<bool> beside_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_EXTERNALS_H_
