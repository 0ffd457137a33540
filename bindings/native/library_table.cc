#include "bindings/native/library_table.h"

#include <utility>

#include "kernels/hash_bytes.h"

namespace reprise::native {

Result<std::shared_ptr<KernelLibrary>> LibraryTable::Load(
    std::span<const char> image) {
  const cache::Signature key = kernels::HashBytes(image);
  {
    const base::MutexLock lock(mutex_);
    while (true) {
      Place& place = places_[key];
      if (auto library = place.library.lock()) return library;
      if (!place.loading) {
        place.loading = true;
        break;
      }
      changed_.Wait(mutex_);
    }
  }
  Result<std::shared_ptr<KernelLibrary>> library =
      KernelLibrary::Load(driver_, context_, image);
  const base::MutexLock lock(mutex_);
  Place& place = places_[key];
  place.loading = false;
  if (library) place.library = *library;
  std::erase_if(places_, [](const auto& item) {
    return !item.second.loading && item.second.library.expired();
  });
  changed_.NotifyAll();
  return library;
}

size_t LibraryTable::size() const {
  const base::MutexLock lock(mutex_);
  size_t loaded = 0;
  for (const auto& [key, place] : places_) {
    loaded += place.library.expired() ? 0 : 1;
  }
  return loaded;
}

}  // namespace reprise::native
