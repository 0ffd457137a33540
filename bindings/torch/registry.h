// What Python names by numbers.

#ifndef REPRISE_BINDINGS_TORCH_REGISTRY_H_
#define REPRISE_BINDINGS_TORCH_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace reprise::bindings {

// Gives each of them a number, once each. Thread-safe.
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

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGISTRY_H_
