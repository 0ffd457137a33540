// Where a plan is cut into segments.

#ifndef REPRISE_ENGINE_SEGMENTS_H_
#define REPRISE_ENGINE_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/trace.h"

namespace reprise::engine {

// Ops [first_op, end_op) of a plan, launched together.
struct Segment {
  uint32_t first_op = 0;
  uint32_t end_op = 0;
  uint32_t launches = 0;
  // It is launched when its first op has come, not before: the op uses an
  // external or a number that only it tells, or may trap. The program might
  // never ask for the op, and an index out of range would stop the device.
  bool gated = false;
};

// The inputs of a pass: externals that were another storage, or elsewhere, in
// each recording. Those that the head does not use are late: where they are is
// known when their first op comes, and launching that op earlier would read
// memory that the program has not vouched for.
std::vector<ValueId> Inputs(const Trace& first, const Trace& second);

// By op, which of its slots differ between the recordings: bit i for slot i.
// The others are taken for constants.
std::vector<uint64_t> ChangingSlots(const Trace& first, const Trace& second);

// Ops that are not launched ahead: those with slots that change, and those that
// write over a value which only inputs of the pass can rebuild, or memory that
// is not of the framework's allocator (which tells before it goes). The program
// may be done with both before it leaves the trace.
std::vector<uint32_t> OpsThatWait(const Trace& first, const Trace& second);

// All ops that write over a value, for executors whose memory may be anybody's
// as soon as the program has freed it: nothing is ever rebuilt.
std::vector<uint32_t> OpsThatOverwrite(const Trace& trace);

// Cuts the ops of `trace`, op k making `launches[k]`, into segments of about
// `segment_launches`, before the first use of each late one of `inputs`, before
// each op that may trap, and before each op of `waiting`.
std::vector<Segment> CutSegments(const Trace& trace,
                                 std::span<const ValueId> inputs,
                                 std::span<const uint32_t> waiting,
                                 std::span<const uint32_t> launches,
                                 uint32_t segment_launches);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_SEGMENTS_H_
