#include "bindings/torch/runtime/others_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "bindings/torch/runtime/torch_frontend.h"

namespace reprise::bindings {
namespace {

// Storages whose address was given away. A weak reference keeps the place of
// one that has died from being another's.
class Given {
 public:
  void Add(const c10::StorageImpl& storage) {
    auto& counted = const_cast<c10::StorageImpl&>(storage);
    const std::lock_guard lock(mutex_);
    if (storages_.contains(&storage)) return;
    if (storages_.size() >= most_) DropDead();
    storages_.emplace(&storage, WeakStorage::reclaim_copy(&counted));
    any_.store(true, std::memory_order_release);
  }

  bool Has(const c10::StorageImpl& storage) const {
    if (!any_.load(std::memory_order_acquire)) return false;
    const std::shared_lock lock(mutex_);
    return storages_.contains(&storage);
  }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  static constexpr size_t kFew = 256;

  void DropDead() {
    std::erase_if(storages_,
                  [](const auto& each) { return each.second.expired(); });
    most_ = std::max(kFew, 2 * storages_.size());
  }

  mutable std::shared_mutex mutex_;
  // Guarded by mutex_, both.
  std::unordered_map<const c10::StorageImpl*, WeakStorage> storages_;
  size_t most_ = kFew;
  std::atomic<bool> any_ = false;  // some were added
};

Given& Addresses() {
  // Tensors may outlive whatever ends.
  static auto* const given = new Given;
  return *given;
}

}  // namespace

void NoteAddressGiven(const c10::StorageImpl& storage) {
  if (storage.device_type() == c10::kCPU) Addresses().Add(storage);
}

bool OthersMayWrite(const c10::StorageImpl& storage) {
  static const c10::DeleterFnPtr torchs = c10::GetCPUAllocator()->raw_deleter();
  auto& unchecked = const_cast<c10::StorageImpl&>(storage);
  const c10::DataPtr& data = unchecked._mutable_data_ptr_no_checks();
  const c10::DeleterFnPtr deleter = data.get_deleter();
  const bool is_torchs =
      deleter == torchs || IsLent(deleter) || data.get() == nullptr;
  return !is_torchs || Addresses().Has(storage);
}

}  // namespace reprise::bindings
