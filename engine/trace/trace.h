// A straight run of ops between two cuts, as recorded.

#ifndef REPRISE_ENGINE_TRACE_TRACE_H_
#define REPRISE_ENGINE_TRACE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/signature.h"
#include "engine/device/launch.h"
#include "engine/trace/frontend.h"
#include "engine/trace/generator.h"
#include "engine/trace/library_frees.h"
#include "engine/trace/memory_watch.h"
#include "engine/trace/op.h"
#include "kernels/strided_layout.h"

namespace reprise::engine {

// Index into Trace::values, in order of first appearance.
using ValueId = uint32_t;

// A storage that the trace reads, writes or makes.
struct Value {
  bool external = false;
  bool arrives = false;  // external: made by an op of the trace, see by_eager
  bool comes_anew = false;  // external: was seen to be replaced, for an input
  bool shared = false;  // external: see Operand; some op reads what it holds
  // First op that uses (external) or makes it; of one that arrives and that no
  // op uses, the one with which it arrives.
  uint32_t birth_op = 0;
  // External: the address of the tensor of its first use. Else, and of one that
  // arrives: the storage's base. All offsets within the value count from here.
  uint64_t origin = 0;
  uint64_t base = 0;        // of its storage
  uint64_t size_bytes = 0;  // from `origin` to the end of the storage
  // Of one that the trace makes: the first op before which it was seen that the
  // program had dropped it.
  static constexpr uint32_t kLives = ~uint32_t{0};
  uint32_t dead_at = kLives;
  // Of one that lives on behind the pass: the program had it still when the
  // trace came again, or nobody has looked.
  bool held = true;
  StorageToken storage = nullptr;  // retained by the trace
};

// One operand's place in a value.
struct ValueRef {
  ValueId value = 0;
  uint64_t offset_bytes = 0;  // from the value's origin, modulo 2^64
  bool written = false;
  uint8_t version_bumps = 0;  // see Operand; repeated where the op is followed
};

// How one result is made when the op is followed.
struct ResultSpec {
  enum class Kind : uint8_t { kUndefined, kOperand, kValue, kHost };
  Kind kind = Kind::kUndefined;
  uint32_t operand = 0;  // kOperand: the operand that is returned
  ValueId value = 0;     // kValue: a new tensor over this value ...
  uint64_t offset_bytes = 0;
  uint64_t storage_bytes = 0;
  uint64_t key_set = 0;
  int32_t dtype = 0;
  kernels::Element element = kernels::Element::kBits;
  uint32_t element_bytes = 0;
  uint32_t version = 0;  // see ResultView
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::shared_ptr<const void> host;  // kHost
  uint64_t host_hash = 0;
  // kHost, of an op that draws: `host` with the generator's seed or offset, as
  // they are where it draws, in place of its number.
  enum class Tells : uint8_t { kNothing, kSeed, kOffset };
  Tells tells = Tells::kNothing;
  uint64_t Told(const GeneratorState& state) const {
    return tells == Tells::kSeed ? state.seed : state.offset;
  }

  // kValue: what is compared. At most kernels::kMaxRank dimensions.
  kernels::Layout layout() const {
    return kernels::MakeLayout(sizes, strides, element_bytes, element);
  }
  bool IsValue() const { return kind == Kind::kValue; }
};

// A number in place of which the session put a marker into the op's words: it
// may be another one at each pass.
struct ScalarSlot {
  uint32_t scalar = 0;  // which of the op's scalars it is
  Scalar recorded = {};
};

// What an op did to the default generator.
struct GeneratorUse {
  bool draws = false;      // the op moved it
  GeneratorState before;   // where the op found it, if the op may draw
  uint64_t increment = 0;  // how far the op moved its offset
};

struct TracedOp {
  OpId op = 0;
  cache::Signature before;      // of the trace's ops before this one
  std::vector<uint64_t> words;  // as they came
  std::vector<ValueRef> operands;
  std::vector<kernels::Layout> written;  // of those that are, in their order
  std::vector<ResultSpec> results;
  bool may_trap = false;  // see OpView
  bool may_draw = false;  // OpView::may_use_generator: another time, perhaps
  bool leaves_unwritten = false;  // see OpView
  uint64_t switches = 0;          // see OpView
  // Its work was seen to give other bits, run twice on the same ones.
  bool nondeterministic = false;
  GeneratorUse generator;
  // Eager runs it where it is followed, too: its results are views of its
  // operands, without device work, or are values that arrive.
  bool by_eager = false;
  bool bumps_versions = false;    // of some operand
  std::vector<ScalarSlot> slots;  // in the order of the words
  uint64_t hash = 0;              // of the words with markers in their place

  // What the op enqueued: device launches (CUDA) or the call itself (host).
  std::vector<device::Launch> launches;
  std::vector<Allocation> temporaries;
  std::unique_ptr<Call> call;

  // Of an operand that is written.
  const kernels::Layout& LayoutOf(size_t operand) const;
  // Makes the value, or writes it.
  bool Writes(ValueId value) const;
};

// A recorded trace. Owns weak references to the storages of its values, through
// `frontend`, which must outlive it. Move-only by holding.
struct Trace {
  explicit Trace(Frontend* frontend) : frontend(frontend) {}
  ~Trace() {
    for (const Value& value : values) frontend->Release(value.storage);
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Frontend* frontend;
  cache::Signature signature;
  std::vector<TracedOp> ops;
  std::vector<Value> values;
  GeneratorState generator;  // at its head
  // Frontend::memory_returned when it began.
  uint64_t memory_returned = 0;
  // What libraries had freed when it began; of nothing where no op of it
  // launches what a library may free.
  LibraryFrees::Seen library_frees;
  // Of a relocated recording: what has been freed since it began.
  std::shared_ptr<MemoryWatch> memory;
  // What it made, temporaries too, took about so much memory at once.
  uint64_t bytes_at_once = 0;
  size_t host_bytes = 0;  // HostBytes, set when the recording ends
};

// About how much of the host's memory a recording takes, with what its weak
// references keep of storages that are gone. Cost: a walk over all of it.
size_t HostBytes(const Trace& trace);
size_t HostBytes(const std::vector<device::Launch>& launches);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_TRACE_H_
