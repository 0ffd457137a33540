#include "kernels/library_table.h"

#include <utility>

#include "kernels/hash_bytes.h"

namespace reprise::kernels {

base::Result<std::shared_ptr<KernelLibrary>> LibraryTable::Load(
    std::span<const char> image) {
  const cache::Signature key = kernels::HashBytes(image);
  {
    const base::MutexLock lock(mutex_);
    while (true) {
      Place& place = places_[key];
      if (auto library = place.loaded.lock()) return library;
      if (!place.loading) {
        place.loading = true;
        break;
      }
      changed_.Wait(mutex_);
    }
  }
  base::Result<std::shared_ptr<KernelLibrary>> library =
      KernelLibrary::Load(driver_, context_, image);
  const base::MutexLock lock(mutex_);
  Place& place = places_[key];
  place.loading = false;
  if (library) place.loaded = *library;
  std::erase_if(places_, [](const auto& item) {
    return !item.second.loading && item.second.loaded.expired();
  });
  changed_.NotifyAll();
  return library;
}

size_t LibraryTable::size() const {
  const base::MutexLock lock(mutex_);
  size_t libraries = 0;
  for (const auto& [key, place] : places_) {
    libraries += place.loaded.expired() ? 0 : 1;
  }
  return libraries;
}

}  // namespace reprise::kernels
