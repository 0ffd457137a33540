// Programs at random: a loop whose passes are disturbed here and there.

#ifndef REPRISE_TESTS_SIM_RANDOM_PROGRAM_H_
#define REPRISE_TESTS_SIM_RANDOM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/model_ops.h"

namespace reprise::sim {

// A variable of a program: weights first, then inputs, then locals.
using Variable = int;

// One line of a program. A line whose inputs are not all set does nothing, so
// that a program stays one when lines are taken out.
struct Line {
  enum class What : uint8_t {
    kOp,
    kDrop,   // unset a variable
    kSteal,  // in place if nobody else holds the storage, else anew
    kFresh,  // an empty tensor, then an op that writes it
  };
  What what = What::kOp;
  OpKind kind = OpKind::kScale;
  std::vector<Variable> inputs = {};
  std::vector<Variable> outputs = {};
  uint32_t attribute = 0;
  uint32_t grows = 0;  // what the attribute grows by from pass to pass
};

// What happens before a line of a pass and is no op of the program.
struct Event {
  enum class What : uint8_t {
    kForeignWrite,  // work of somebody else's writes the variable in place
    kFree,          // the program drops it, and free memory goes to the device
    kRetake,        // the same, and new data of somebody else's, in its place
                    // in memory if that is free, is the variable now
    kAlias,         // a part of another variable's memory is the variable,
                    // until the end of the pass
    kFence,         // another stream waits for this one, ...
    kAside,         // ... and its ops write the variable before this one
                    // touches it again
    kPause,         // ops are not shown any more, until kResume or the end
    kResume,        // of the pass
    kReset,         // the session forgets what it knows
    kOtherOptions,  // a session with other options has the stream, or the
                    // first one has it again
    kGenerator,     // the program does this to its random generator
    kUnderWay,      // another thread's op that writes the variable is entered,
                    // and does its work just before the program uses it again
  };
  enum class Generator : uint8_t {
    kSeeds,    // each pass in another way
    kReseeds,  // in the same way always
    kForks,    // keeps where it is, and seeds it
    kJoins,    // it is where it was kept, or where it was at the pass's begin
    kUses,     // somebody else does
  };
  What what = What::kForeignWrite;
  int at = 0;
  Variable variable = 0;
  Variable other = 0;
  bool twist = false;  // another way of doing it; see Twin
  Generator generator = Generator::kSeeds;
};

// One pass of the loop, and what disturbs it. Line numbers are those of the
// body; -1 is never.
struct Pass {
  int inputs = 0;            // which of the inputs that were made beforehand
  bool uploads = false;      // new inputs instead, from the host
  int leaves_at = -1;        // before it: the detour, and the pass ends
  int changes_at = -1;       // that line has another attribute
  int replaces_weight = -1;  // a new tensor
  int edits_weight = -1;     // in place, by an op
  int raises_at = -1;        // before it an op raises, and the pass ends
  uint32_t holds = 0;        // bit i: local i is held after the pass
  int drops = 0;             // as many of the oldest held tensors
  bool looks = false;        // at its end the host looks
  int begins_at = 0;         // lines before it are left out
  int builds_at = -1;        // before it, waiting builds are done
  int evicts_at = -1;        // before it, all plans that can be are evicted
  int gives_back_at = -1;    // before it, free memory goes to the device
  int clears_at = -1;        // before it, a library's workspace is freed
  Variable frees = -1;       // the program drops it, ...
  int frees_at = -1;     // before that line; a weight is made anew afterwards
  bool settles = false;  // verdicts are waited for
  std::vector<Event> events = {};
};

struct Program {
  size_t weights = 0;
  size_t inputs = 0;
  size_t locals = 0;
  size_t input_sets = 1;
  std::vector<size_t> lengths;  // of weights and inputs
  bool keeps_locals = false;    // after a pass, until they are set again
  std::vector<Line> preamble;   // before the first pass
  std::vector<Line> body;
  std::vector<Line> detour;
  std::vector<Pass> passes;

  size_t variables() const { return weights + inputs + locals; }
  std::string Name(Variable variable) const;
  // For people.
  std::string ToString() const;
};

struct ProgramStyle {
  size_t passes = 30;
  // No cut, no raise, nothing that disturbs a pass.
  bool calm = false;
  // Passes have events, and seldom anything else that disturbs them; for calm
  // programs, so that the events meet replays.
  bool eventful = false;
};

Program RandomProgram(uint32_t seed, const ProgramStyle& style);

// A smaller program for which `fails` is still true: lines, passes and
// disturbances are taken out while it is. `attempts` bounds the calls.
Program Shrink(Program program,
               const std::function<bool(const Program&)>& fails,
               int attempts = 2000);

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_RANDOM_PROGRAM_H_
