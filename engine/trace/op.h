// An operation of the stream as the scheduler sees it: borrowed views, valid
// only during the call that passes them.

#ifndef REPRISE_ENGINE_TRACE_OP_H_
#define REPRISE_ENGINE_TRACE_OP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/trace/scalar.h"

namespace reprise::engine {

// Index into the frontend's table of operators; stable for the process.
using OpId = uint32_t;

// Stands for what a program does without an op.
inline constexpr OpId kNoOp = ~OpId{0};

// Names a storage while it is alive (torch: the StorageImpl's address). Two
// storages that never live at once may share a token, so a token that is kept
// needs a weak reference (Frontend::Retain).
using StorageToken = const void*;

// One tensor operand: which storage, where in it the tensor begins, and its
// layout. All that decides which kernels run (dtype, sizes, strides, keys,
// alignment) is in the words as well.
struct Operand {
  StorageToken storage = nullptr;
  uint64_t base = 0;           // address of the storage's first byte
  uint64_t offset_bytes = 0;   // of the tensor's first element from `base`
  uint64_t storage_bytes = 0;  // size of the storage
  bool written = false;        // the schema says that the op writes it
  // Others than the framework may write its memory at any time, without an op.
  // In the words, too.
  bool shared = false;
  // What it holds does not matter to the op, which looks at its form alone or
  // uses it for scratch.
  bool unread = false;
  // Behind an op that eager has run: how often it has raised the tensor's count
  // of writes itself, where the frontend keeps one (torch: autograd's version).
  uint8_t version_bumps = 0;
  int32_t dtype = 0;  // the frontend's code
  uint32_t element_bytes = 0;
  std::span<const int64_t> sizes;    // in elements
  std::span<const int64_t> strides;  // in elements

  uint64_t address() const { return base + offset_bytes; }
};

// An op at its call. `words` is the canonical form of everything but the
// identity of its operands: operator, dtypes, sizes, strides, key sets,
// alignment classes, attributes by value, and the global switches that this
// class of operator reads. Two calls with equal words and corresponding
// operands run the same kernels.
struct OpView {
  OpId op = 0;
  std::span<const uint64_t> words;
  std::span<const Operand> operands;
  // Numbers that the op's kernels take by value: as they are, negated, inverted
  // or rounded. Beyond what Marker tells apart, the host decides nothing by
  // them and makes nothing else of them. In the order of the words, where they
  // stand too, unless the session put a marker there.
  std::span<const Scalar> scalars;
  // Why the op cannot be part of a trace (a string literal); null if it can.
  const char* cut = nullptr;
  // Eager runs it always, and its results are the program's: a copy of what the
  // host has, which the words do not tell.
  bool by_eager = false;
  // It may draw random numbers: the generator is looked at around it.
  bool may_use_generator = false;
  // Its library forks streams that nothing else uses, and joins them.
  bool forks_streams = false;
  // What it makes has no content yet: of ops that make something it is the one
  // kind that enqueues nothing.
  bool leaves_unwritten = false;
  // Its kernels check their data (indices, probabilities), and stop the device
  // where they find something else.
  bool may_trap = false;
  // Its library may try out kernels, time them and keep the fastest for calls
  // to come: what a recording shows of that is dropped, and recorded again.
  bool may_try_kernels = false;
  // Its library may free the kernels that it launches: see LibraryFrees.
  bool may_use_library_plans = false;
  // Switches of the process and the thread that the op's work obeys where it is
  // run again, as they are at the call: an op that runs ahead is to run under
  // its own. 0 where recorded work obeys none (a GPU).
  uint64_t switches = 0;
  // Behind an op that eager has run: it has warned the program. Run ahead, it
  // would do so elsewhere, or not at all.
  bool warned = false;
};

// One value that an op returned.
struct ResultView {
  enum class Kind : uint8_t {
    kUndefined,  // an undefined tensor
    kTensor,     // a tensor on the session's device
    kHost,       // a number, a list of numbers, a tensor of the host
  };
  Kind kind = Kind::kUndefined;
  // kTensor: index of the operand that this very tensor is, or -1.
  int32_t operand = -1;
  StorageToken storage = nullptr;
  uint64_t base = 0;
  uint64_t offset_bytes = 0;
  uint64_t storage_bytes = 0;
  uint64_t key_set = 0;
  int32_t dtype = 0;  // the frontend's code
  uint32_t element_bytes = 0;
  // The tensor's count of writes, where the frontend keeps one: the op may have
  // written its result in place.
  uint32_t version = 0;
  std::span<const int64_t> sizes;    // in elements
  std::span<const int64_t> strides;  // in elements
  // kHost: the value as the frontend keeps it, and a hash of it, so that two
  // recordings can agree.
  std::shared_ptr<const void> host;
  uint64_t host_hash = 0;
  // kHost: a 0-dimensional tensor of the host of this integer.
  std::optional<int64_t> host_integer;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_OP_H_
