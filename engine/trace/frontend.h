// What the engine needs of the framework whose stream it watches.

#ifndef REPRISE_ENGINE_TRACE_FRONTEND_H_
#define REPRISE_ENGINE_TRACE_FRONTEND_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/trace/block.h"
#include "engine/trace/generator.h"
#include "engine/trace/library_frees.h"
#include "engine/trace/memory_watch.h"
#include "engine/trace/op.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {

// Memory that was allocated while an op ran.
struct Allocation {
  uint64_t address;
  uint64_t size_bytes;
};

// A storage and where its first byte is.
struct StoragePlace {
  StorageToken storage = nullptr;
  uint64_t base = 0;
};

// One recorded call of an op, able to run again on other memory (host
// executor).
class Call {
 public:
  virtual ~Call() = default;
  // Runs the op on operands whose tensors begin at `operands[i]` and puts the
  // storage of result r at `results[r]`, with the layout it had when recorded
  // (0 where the result is no new storage). Any thread.
  virtual base::Status Run(std::span<const uint64_t> operands,
                           std::span<const uint64_t> results) = 0;
  // From the next Run on, the op's `scalar`-th number (OpView::scalars) has
  // these bits.
  virtual void SetScalar(uint32_t scalar, uint64_t bits) = 0;
};

// Who wants to know where in its own source the program is.
class PlaceAsker {
 public:
  // The answer to that question, as people write it: "train.py:42", or "" if it
  // is not known. Any thread; must not wait for a session.
  virtual void Tell(uint64_t question, const std::string& place) = 0;

 protected:
  ~PlaceAsker() = default;
};

// The framework, as one session (device and stream) sees it. Implemented by a
// binding and by the tests. Unless said otherwise, called on the thread whose
// op is being handled, with no lock of the engine's held but the session's own.
class Frontend {
 public:
  virtual ~Frontend() = default;

  // Of any op but kNoOp. Any thread.
  virtual std::string OpName(OpId op) const = 0;

  // Tells `asker` soon where in its own source the program is, unless nobody
  // can tell. Never waits, and tells from another thread, or later on this one,
  // when the op that is being handled is over; the answers to an asker come in
  // the order of its questions. The asker lives as long as the framework is
  // used.
  virtual void AskPlace(PlaceAsker*, uint64_t /*question*/) {}

  // Run again on the same bits, the op may give others (atomic sums), and the
  // framework has not been told to refuse that.
  virtual bool MayBeNondeterministic(OpId) const { return false; }
  // Its kernels use no memory that no parameter names: they may run beside
  // those of other ops.
  virtual bool MayRunBeside(OpId) const { return false; }
  // Of a dtype, by the frontend's code; the name is for people. Any thread.
  virtual std::string DtypeName(int32_t) const { return {}; }
  virtual kernels::Element ElementOf(int32_t) const {
    return kernels::Element::kBits;
  }

  // Weak references: they keep a token from being used again and change no
  // use count that a program can see. Any thread.
  virtual void Retain(StorageToken storage) = 0;
  virtual void Release(StorageToken storage) = 0;
  // The retained storage is alive. Any thread; never blocks.
  virtual bool Alive(StorageToken storage) const = 0;
  // Where the retained storage's memory is now; 0 if it is dead. Any thread,
  // also while the program frees or moves it: before or after are both right.
  virtual uint64_t Base(StorageToken storage) const = 0;

  // Strong references to retained storages, for no longer than an op, because
  // the program can see them. Returns how many are held, from the first one on:
  // it stops at one that is dead, lies elsewhere or cannot be had without
  // waiting. Never blocks.
  virtual size_t Hold(std::span<const StoragePlace> storages) = 0;
  // Ends what Hold began. With the last reference the program's own deleter
  // runs, and waits for what it likes: no lock is held, the session's neither.
  virtual void Drop(std::span<const StoragePlace> storages) = 0;

  // Memory of the framework's own allocator on the session's device and
  // stream, 512-byte aligned on a GPU and 64-byte aligned on the host.
  // kResourceExhausted when there is none. Any thread.
  virtual base::Result<Block> Allocate(size_t size_bytes) = 0;

  // For what Allocate gives, beyond the frontend's end. Null where nothing is
  // used by other streams.
  virtual KeepMemory keep_memory() const { return nullptr; }

  // From Begin to End, allocations of the session's stream come from memory
  // that no earlier recording used, so that every value moves. They are going
  // to take about so many bytes at once; kResourceExhausted where the device
  // has not so many.
  virtual base::Status BeginPrivatePool(uint64_t bytes) = 0;
  virtual void EndPrivatePool() = 0;

  // From Begin to the matching Take, allocations by this thread are noted.
  virtual void BeginAllocations() = 0;
  virtual std::vector<Allocation> TakeAllocations() = 0;

  // The default random generator of the session's device, which other threads
  // may use meanwhile. Another state whenever it has been used or seeded.
  virtual GeneratorState Generator() const = 0;
  // It is at `from`, and at `to` from now on; the two have one seed. False if
  // it is elsewhere: nothing is changed then.
  virtual bool MoveGenerator(const GeneratorState& from,
                             const GeneratorState& to) = 0;
  // Null where recorded work does not use it, but is told where it is.
  virtual std::unique_ptr<KeptGenerator> KeepGenerator() = 0;

  // The address lies in memory that the framework's allocator owns. Any thread.
  virtual bool OwnsAddress(uint64_t address) const = 0;

  // How often some of it has been given back to the device, except what was
  // taken for recordings. Any thread.
  virtual uint64_t memory_returned() const { return 0; }

  // Tells from now on what of that memory is freed that is in use now; the
  // frontend outlives it. Null where no recorded work names such memory.
  // kUnavailable where the allocator does not say what is in use.
  virtual base::Result<std::shared_ptr<MemoryWatch>> WatchMemory() {
    return nullptr;
  }

  // Of libraries whose kernels ops launch (OpView::may_use_library_plans); it
  // outlives the frontend. Null where none frees them. Any thread.
  virtual LibraryFrees* library_frees() { return nullptr; }
  // A library may have freed kernels, or may do so at its next call, and nobody
  // has told library_frees(), where this has now been announced: the library
  // keeps no more of them. Any thread.
  virtual bool LibraryIsFull() { return false; }
};

inline std::string NameOf(const Frontend& frontend, OpId op) {
  return op == kNoOp ? "(no op)" : frontend.OpName(op);
}

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_FRONTEND_H_
