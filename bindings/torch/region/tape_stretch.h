// Calls of a tape that a replay answers together.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCH_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "bindings/torch/region/tape_record.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"

namespace reprise::bindings {

// Calls in a row whose ops are ops in a row of one plan, none of which has to
// be shown when it comes (Session::FollowUnseen). A tape makes the same calls
// on the same registers each time. So where the plan is replayed and is at the
// first of these ops, and what comes from outside of them lies where it is
// bound, each would match: they are followed together, and of their results
// only those that somebody uses behind them are made.
//
// Calls that give views are no ops: those of what there is before are made
// first, others behind it.
struct TapeStretch {
  // An operand that none of these calls makes: in the register, or a view that
  // begins there in its storage.
  struct Given {
    int32_t reg = 0;
    std::optional<uint64_t> offset_bytes;
    engine::ValueRef ref;
    uint64_t alignment = 0;  // AlignmentClass
  };
  // Which result of which op a register is; or it lies in that one's memory as
  // its form says.
  struct Result {
    int32_t reg = 0;
    uint32_t op = 0;
    uint32_t result = 0;
    bool by_form = false;
  };
  // So often does that op count as a write of it, for whoever looks at its
  // version.
  struct Bump {
    int32_t reg = 0;
    uint32_t op = 0;
    uint32_t times = 0;
  };
  // Nobody uses it behind that op.
  struct Drop {
    int32_t reg = 0;
    uint32_t op = 0;
  };

  size_t first_call = 0;
  size_t end_call = 0;
  std::thread::id thread = {};  // is in the words of some ops
  std::weak_ptr<const engine::Program> program = {};
  uint32_t first_op = 0;
  std::vector<size_t> calls = {};    // by op, which one
  std::vector<size_t> before = {};   // calls that are made first
  std::vector<Given> given = {};     // each once
  bool writes = false;               // some of it
  std::vector<Result> results = {};  // ascending by op
  // Of these, what is used behind; and what makes the views that are.
  std::vector<Result> wanted = {};
  std::vector<size_t> views = {};           // calls
  std::vector<engine::ValueId> taken = {};  // of what is wanted, ascending
  std::vector<Bump> bumps = {};             // ascending by op
  std::vector<Drop> drops = {};             // ascending by op
};

// Of one tape. Ascending by first call, of those with one the last one first.
using TapeStretchList = std::vector<std::shared_ptr<const TapeStretch>>;

// What a run of a tape has shown of one of its calls: it was that op of the
// plan that was replayed; or no op, and gave views.
struct AnsweredCall {
  struct Operand {
    int32_t reg = 0;
    engine::ValueRef ref;
    uint64_t alignment = 0;  // AlignmentClass
  };

  bool views = false;
  std::shared_ptr<const engine::Program> program = nullptr;  // null: no op
  uint32_t op = 0;
  std::vector<Operand> operands = {};
  std::vector<TapeStretch::Result> results = {};
  std::vector<TapeStretch::Bump> bumps = {};
};

// A look at a stretch takes as long as so many ops: shorter ones are of no use.
inline constexpr size_t kFewestOpsOfStretch = 3;

// All stretches of a run. `calls`: by call, all of the tape's. On the thread of
// the run.
TapeStretchList FindStretches(const TapeRecord& tape,
                              const std::vector<AnsweredCall>& calls);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCH_H_
