// Random programs of the C++ API, as data.

#ifndef REPRISE_TESTS_BINDINGS_NATIVE_BATCH_PROGRAM_H_
#define REPRISE_TESTS_BINDINGS_NATIVE_BATCH_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::native {

inline constexpr uint32_t kStreams = 2;
inline constexpr uint32_t kOwnBuffers = 4;  // of each stream
inline constexpr uint32_t kSharedBuffers = 2;
inline constexpr uint32_t kBuffers = kStreams * kOwnBuffers + kSharedBuffers;
inline constexpr uint32_t kWords = 24;  // of a buffer

// A buffer or a half of it.
struct Range {
  enum class Part : uint8_t { kAll, kFirstHalf, kSecondHalf };

  uint32_t buffer = 0;
  Part part = Part::kAll;

  uint32_t begin() const { return part == Part::kSecondHalf ? kWords / 2 : 0; }
  uint32_t words() const { return part == Part::kAll ? kWords : kWords / 2; }
};

// One launch of a shape. What each kind does: batch_kernels.h.
struct Step {
  enum class Kind : uint8_t {
    kMix,    // In and InOut
    kBlend,  // the same, another kernel
    kWeave,  // two InOut
    kStamp,  // Out
    kPlain,  // kMix with plain pointers
    kAny,    // kMix as an AnyKernel
    kCopy,
    kFill1,  // elements of so many bytes
    kFill2,
    kFill4,
    kCapture,  // kMix and a copy by the program's own calls, with a key
    kUnknown,  // the same without one
    kWait,     // for the other stream's last point
    kRecord,   // the stream's last point
  };
  // Attributes of a launch.
  enum Attribute : uint8_t {
    kNoAttribute,
    kProgrammatic,
    kCooperative,
    kCluster,
    kPriority,
    kSharedMemory,
    kMuchSharedMemory
  };

  Kind kind = Kind::kMix;
  Range to;
  Range from;
  uint32_t by = 0;  // the number among its arguments, or a fill's value
  uint32_t blocks = 1;
  Attribute attribute = kNoAttribute;
};

// A batch that comes again and again. One that uses buffers that the streams
// share waits for the other stream before, and records a point at its end.
struct Shape {
  size_t stream = 0;
  bool shares = false;
  std::vector<Step> steps;
};

// How a submission differs from its shape.
struct Change {
  uint32_t mask = 0;     // of steps whose number changes
  uint32_t by = 0;       // and by how much
  uint32_t shift = 0;    // all buffers are those so many further
  uint32_t moved = ~0u;  // of steps for which they are
  uint32_t blocks = 0;   // more
};

struct Action {
  enum class What : uint8_t {
    kSubmit,   // `shape` with `change`
    kDrop,     // begun, filled, and not submitted
    kMistake,  // with a launch in it that must be refused
    kPrepare,  // the plan `slot` of `shape`
    kSet,      // `change` of the plan's arguments
    kLaunch,   // the plan
    kEndPlan,
    kBuild,  // the next `count` tasks of the build queue
    kBuildAll,
    kReplace,   // `buffer` is freed, another takes its place
    kLook,      // at `buffer`
    kAdvance,   // `stream` does `count` items
    kOrder,     // `stream` waits for the other one
    kStats,     // asks a stream what it holds
    kNewStream  // `stream` ends, and another takes its place
  };
  static constexpr size_t kSlots = 3;

  What what = What::kSubmit;
  size_t shape = 0;
  size_t slot = 0;
  uint32_t buffer = 0;
  size_t stream = 0;
  size_t count = 0;
  Change change;
};

struct Program {
  std::vector<Shape> shapes;
  std::vector<Action> actions;

  std::string ToString() const;
};

struct ProgramOptions {
  size_t shapes = 6;
  size_t actions = 130;
  // Every batch with its graph, and nothing that keeps it from being replayed.
  bool calm = false;
};

Program RandomProgram(uint32_t seed, const ProgramOptions& options = {});

// A smaller program of which `fails` holds too: no action and no launch can go.
Program Shrink(Program program,
               const std::function<bool(const Program&)>& fails);

}  // namespace reprise::native

#endif  // REPRISE_TESTS_BINDINGS_NATIVE_BATCH_PROGRAM_H_
