// The storages of the program that a pass of a plan relies on.

#ifndef REPRISE_ENGINE_TRACE_STORAGE_HOLDS_H_
#define REPRISE_ENGINE_TRACE_STORAGE_HOLDS_H_

#include <span>
#include <utility>
#include <vector>

#include "engine/trace/frontend.h"

namespace reprise::engine {

// References to storages on behalf of the pass that is under way:
//
//   Hold    strong, over a launch: until the session's lock is given up
//   Watch   weak, until the pass has ended: the storage may be asked after
//
// Strong references end where no lock is held (see Frontend::Drop), so whoever
// gives the lock up takes them out first and lets them go afterwards.
//
// All calls under the session's lock. `frontend` must outlive what is held; it
// is null where nothing ever is.
class StorageHolds {
 public:
  explicit StorageHolds(Frontend* frontend) : frontend_(frontend) {}
  StorageHolds(const StorageHolds&) = delete;
  StorageHolds& operator=(const StorageHolds&) = delete;

  // False if not all of them are where they were and can be held.
  bool Hold(std::span<const StoragePlace> storages) {
    const size_t held = frontend_->Hold(storages);
    held_.insert(held_.end(), storages.begin(), storages.begin() + held);
    return held == storages.size();
  }
  // The storage is alive.
  void Watch(StorageToken storage) {
    frontend_->Retain(storage);
    watched_.push_back(storage);
  }
  void EndPass() {
    for (const StorageToken storage : watched_) frontend_->Release(storage);
    watched_.clear();
  }

  // What was held. Its end drops it.
  class Held {
   public:
    Held(Frontend* frontend, std::vector<StoragePlace> storages)
        : frontend_(frontend), storages_(std::move(storages)) {}
    ~Held() {
      if (!storages_.empty()) frontend_->Drop(storages_);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Frontend* frontend_;
    std::vector<StoragePlace> storages_;
  };

  bool any_held() const { return !held_.empty(); }
  Held TakeHeld() { return Held(frontend_, std::exchange(held_, {})); }

 private:
  Frontend* frontend_;
  std::vector<StoragePlace> held_;
  std::vector<StorageToken> watched_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_STORAGE_HOLDS_H_
