// Device or host memory with its owner, in a form that a tensor can adopt.

#ifndef REPRISE_ENGINE_TRACE_BLOCK_H_
#define REPRISE_ENGINE_TRACE_BLOCK_H_

#include <cuda.h>

#include <cstdint>
#include <utility>

namespace reprise::engine {

// Owns memory at `address()` through a context and a release function, as the
// data pointers of frameworks do: Detach() hands both over. Release may be
// called on any thread. Move-only; moved-from and default-made blocks are
// empty.
class Block {
 public:
  using Release = void (*)(void* context);

  struct Parts {
    uint64_t address;
    void* context;
    Release release;
  };

  Block() = default;
  Block(uint64_t address, void* context, Release release)
      : address_(address), context_(context), release_(release) {}
  Block(Block&& other) noexcept { Swap(other); }
  Block& operator=(Block&& other) noexcept {
    Block(std::move(other)).Swap(*this);
    return *this;
  }
  ~Block() {
    if (release_ != nullptr) release_(context_);
  }

  // The caller now owns the memory and calls release(context) once.
  Parts Detach() {
    Parts parts{address_, context_, release_};
    address_ = 0;
    context_ = nullptr;
    release_ = nullptr;
    return parts;
  }

  uint64_t address() const { return address_; }
  explicit operator bool() const { return address_ != 0; }

 private:
  void Swap(Block& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(context_, other.context_);
    std::swap(release_, other.release_);
  }

  uint64_t address_ = 0;
  void* context_ = nullptr;
  Release release_ = nullptr;
};

// Has memory of an allocator kept, once it is released, until what `stream` was
// given until then is done, whether or not it is being captured. Any thread.
using KeepMemory = void (*)(uint64_t address, CUstream stream);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_BLOCK_H_
