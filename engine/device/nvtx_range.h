// Ranges that NVIDIA's tools show beside what a device does.

#ifndef REPRISE_ENGINE_DEVICE_NVTX_RANGE_H_
#define REPRISE_ENGINE_DEVICE_NVTX_RANGE_H_

#include <cstdint>
#include <optional>
#include <utility>

namespace reprise::device {

// A range in the domain `reprise`, from its making to its end, which may come
// on another thread, and with others begun in between. Move-only;
// thread-compatible. Without a tool it is nothing.
class NvtxRange {
 public:
  // A tool is there. The first call loads it, if the environment names one;
  // later ones are a load.
  static bool Attached();

  NvtxRange() = default;  // of nothing
  explicit NvtxRange(const char* name);
  NvtxRange(NvtxRange&& other) noexcept
      : id_(std::exchange(other.id_, std::nullopt)) {}
  NvtxRange& operator=(NvtxRange&& other) noexcept {
    NvtxRange(std::move(other)).Swap(*this);
    return *this;
  }
  ~NvtxRange();

 private:
  void Swap(NvtxRange& other) noexcept { std::swap(id_, other.id_); }

  std::optional<uint64_t> id_;
};

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_NVTX_RANGE_H_
