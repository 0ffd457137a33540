#include "bindings/native/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/device/context_scope.h"
#include "engine/device/exiting.h"
#include "engine/device/relaxed_capture.h"

namespace reprise::native {
namespace {

constexpr size_t kSmallestBytes = 4096;

// Few sizes, so that blocks fit many copies.
size_t BlockBytes(size_t bytes) {
  if (bytes <= Staging::kPieceBytes) {
    return std::bit_ceil(std::max(bytes, kSmallestBytes));
  }
  return (bytes - 1) / Staging::kPieceBytes * Staging::kPieceBytes +
         Staging::kPieceBytes;
}

}  // namespace

Result<std::unique_ptr<PinnedBlock>> PinnedBlock::Make(
    const device::Driver& driver, size_t size_bytes) {
  const device::RelaxedCapture relaxed(driver);
  std::unique_ptr<PinnedBlock> block(new PinnedBlock(driver, size_bytes));
  void* memory = nullptr;
  const CUresult made = driver.cuMemHostAlloc(&memory, size_bytes, 0);
  if (made == CUDA_ERROR_OUT_OF_MEMORY) {
    return base::Fail(Code::kResourceExhausted,
                      "the host has no " + std::to_string(size_bytes) +
                          " bytes of pinned memory left: copy in parts, or "
                          "drop what was downloaded before");
  }
  REPRISE_RETURN_IF_ERROR(device::Check(driver, made, "cuMemHostAlloc"));
  block->memory_ = static_cast<std::byte*>(memory);
  CUevent event = nullptr;
  REPRISE_CU(driver, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  block->used_ = device::UniqueEvent(driver, event);
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (memory_ == nullptr || device::Exiting()) return;
  const device::RelaxedCapture relaxed(driver_);
  driver_.cuMemFreeHost(memory_);
}

Status PinnedBlock::UsedBy(CUstream stream) {
  const CUresult recorded = driver_.cuEventRecord(used_.get(), stream);
  // Memory that nobody waits for is worse than a call that fails.
  if (recorded != CUDA_SUCCESS) driver_.cuStreamSynchronize(stream);
  return device::Check(driver_, recorded, "cuEventRecord");
}

Result<bool> PinnedBlock::Passed() const {
  const device::RelaxedCapture relaxed(driver_);
  const CUresult state = driver_.cuEventQuery(used_.get());
  if (state == CUDA_ERROR_NOT_READY) return false;
  REPRISE_RETURN_IF_ERROR(device::Check(driver_, state, "cuEventQuery"));
  return true;
}

Status PinnedBlock::Synchronize() const {
  const device::RelaxedCapture relaxed(driver_);
  REPRISE_CU(driver_, cuEventSynchronize(used_.get()));
  return {};
}

Staging::~Staging() {
  if (device::Exiting()) return;
  while (auto block = TakeOldest(0)) Free(std::move(block));
}

Status Staging::CopyIn(CUdeviceptr to, const void* from, size_t bytes,
                       CUstream stream) {
  const auto* source = static_cast<const std::byte*>(from);
  for (size_t done = 0; done < bytes; done += kPieceBytes) {
    const size_t piece = std::min(kPieceBytes, bytes - done);
    REPRISE_ASSIGN_OR_RETURN(auto block, Take(piece));
    std::memcpy(block->memory(), source + done, piece);
    Status copied = device::Check(
        driver_,
        driver_.cuMemcpyHtoDAsync(to + done, block->memory(), piece, stream),
        "cuMemcpyHtoDAsync");
    if (copied) copied = block->UsedBy(stream);
    GiveBack(std::move(block));
    REPRISE_RETURN_IF_ERROR(copied);
  }
  return {};
}

// A block that is given back with its end.
class Staging::Bytes final : public HostBytes {
 public:
  Bytes(Staging& staging, std::unique_ptr<PinnedBlock> block)
      : staging_(staging), block_(std::move(block)) {}
  ~Bytes() override {
    if (device::Exiting()) return;
    const device::ContextScope scope(staging_.driver_, staging_.context_);
    staging_.GiveBack(std::move(block_));
  }

  Result<bool> Arrived() override {
    const device::ContextScope scope(staging_.driver_, staging_.context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    return block_->Passed();
  }
  Result<const std::byte*> Wait() override {
    const device::ContextScope scope(staging_.driver_, staging_.context_);
    REPRISE_RETURN_IF_ERROR(scope.status());
    REPRISE_RETURN_IF_ERROR(block_->Synchronize());
    return block_->memory();
  }

 private:
  Staging& staging_;
  std::unique_ptr<PinnedBlock> block_;
};

Result<std::unique_ptr<HostBytes>> Staging::CopyOut(CUdeviceptr from,
                                                    size_t bytes,
                                                    CUstream stream) {
  REPRISE_ASSIGN_OR_RETURN(auto block, Take(bytes));
  Status copied;
  if (bytes > 0) {
    copied = device::Check(
        driver_,
        driver_.cuMemcpyDtoHAsync(block->memory(), from, bytes, stream),
        "cuMemcpyDtoHAsync");
  }
  if (copied) copied = block->UsedBy(stream);
  if (copied) return std::make_unique<Bytes>(*this, std::move(block));
  GiveBack(std::move(block));
  return tl::unexpected(copied.error());
}

Result<std::unique_ptr<PinnedBlock>> Staging::Take(size_t bytes) {
  const size_t size_bytes = BlockBytes(bytes);
  const auto full = [&] { return held_bytes() + size_bytes > kKeptBytes; };
  if (auto block = TakeOldest(size_bytes)) {
    Result<bool> passed = block->Passed();
    if (passed && *passed) return block;
    Status waited;
    if (!passed) {
      waited = tl::unexpected(passed.error());
    } else if (full()) {
      waited = block->Synchronize();
      if (waited) return block;
    }
    {
      const base::MutexLock lock(mutex_);
      free_.push_front(std::move(block));
    }
    REPRISE_RETURN_IF_ERROR(waited);
  }
  // Of other sizes, which nobody has asked for of late.
  while (full()) {
    auto block = TakeOldest(0);
    if (block == nullptr) break;
    Free(std::move(block));
  }
  REPRISE_ASSIGN_OR_RETURN(auto made, PinnedBlock::Make(driver_, size_bytes));
  const base::MutexLock lock(mutex_);
  held_bytes_ += size_bytes;
  return made;
}

std::unique_ptr<PinnedBlock> Staging::TakeOldest(size_t size_bytes) {
  const base::MutexLock lock(mutex_);
  const auto found =
      std::find_if(free_.begin(), free_.end(), [size_bytes](const auto& block) {
        return size_bytes == 0 || block->size_bytes() == size_bytes;
      });
  if (found == free_.end()) return nullptr;
  auto block = std::move(*found);
  free_.erase(found);
  return block;
}

void Staging::GiveBack(std::unique_ptr<PinnedBlock> block) {
  {
    const base::MutexLock lock(mutex_);
    if (held_bytes_ <= kKeptBytes) {
      free_.push_back(std::move(block));
      return;
    }
  }
  Free(std::move(block));
}

void Staging::Free(std::unique_ptr<PinnedBlock> block) {
  (void)block->Synchronize();
  const base::MutexLock lock(mutex_);
  held_bytes_ -= block->size_bytes();
}

size_t Staging::held_bytes() const {
  const base::MutexLock lock(mutex_);
  return held_bytes_;
}

}  // namespace reprise::native
