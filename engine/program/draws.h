// What the ops of a trace take of the device's random generator.

#ifndef REPRISE_ENGINE_PROGRAM_DRAWS_H_
#define REPRISE_ENGINE_PROGRAM_DRAWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/trace/generator.h"

namespace reprise::engine {

struct Trace;

// An op that draws, and where the generator is then.
struct Draw {
  uint32_t op = 0;
  uint32_t source = 0;     // among Draws::sources
  uint64_t ahead = 0;      // of the source's offset, modulo 2^64
  uint64_t increment = 0;  // by which it moves the offset
};

// A state from which those of ops are known: how much a pass draws does not
// depend on what is drawn.
struct DrawSource {
  enum class Told : uint8_t {
    kByHead,     // the generator's at the pass's head
    kByOp,       // the generator's when `op` comes: the program sets it there
    kRecordings  // in all passes the same: the program sets it to that
  };
  Told told = Told::kByHead;
  uint32_t op = 0;  // the first one that draws from it
  GeneratorState recorded;
  // The recordings saw another one each: work that was told it can be told
  // another one. Else it is only known to be right with the recorded one.
  bool seed_varies = false;
  bool offset_varies = false;

  bool Takes(const GeneratorState& state) const {
    return (seed_varies || state.seed == recorded.seed) &&
           (offset_varies || state.offset == recorded.offset);
  }
};

// All draws of a trace, in the order of its ops. Immutable.
class Draws {
 public:
  // None.
  Draws() = default;
  // For recorded work that is told seed and offset, so that it can run ahead of
  // the generator.
  static Draws Ahead(const Trace& first, const Trace& second);
  // For recorded work that uses the generator itself, each op in its turn:
  // those that did not draw may do so another time, if the data tell them to.
  static Draws InTurn(const Trace& trace);

  // Those that run ahead of the generator.
  std::span<const Draw> ahead() const { return ahead_; }
  std::span<const DrawSource> sources() const { return sources_; }
  // One of the sources, which is known at the head, has draws.
  bool uses_head() const { return uses_head_; }
  static constexpr uint32_t kHead = 0;
  // The source that is known when the op has come, if there is one.
  std::optional<uint32_t> ToldBy(uint32_t op) const;
  // The op cannot run before it has come, because of the generator.
  bool Waits(uint32_t op) const {
    return op < waits_.size() && static_cast<bool>(waits_[op]);
  }

 private:
  std::vector<Draw> ahead_;
  std::vector<DrawSource> sources_;
  std::vector<bool> waits_;  // by op; empty: none does
  bool uses_head_ = false;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_DRAWS_H_
