// When another instance of a plan pays, and when one is no longer needed.

#ifndef REPRISE_SCHEDULER_INSTANCE_POLICY_H_
#define REPRISE_SCHEDULER_INSTANCE_POLICY_H_

#include <cstdint>

namespace reprise::scheduler {

// An output that escapes costs each launch about a microsecond: memory from
// the framework's allocator, and the nodes that point to it patched. So few of
// them cost less than an instance that has to be built and validated.
inline constexpr uint32_t kFewestHeldOutputs = 4;

// What may be spent on saving one of them, in device memory.
inline constexpr uint64_t kBytesAHeldOutput = uint64_t{4} << 20;

// No instance is free, and in the one that holds least `held` outputs of
// together `held_bytes` are alive. Another instance takes `instance_bytes`;
// escaping, the outputs would take `held_bytes` themselves.
constexpr bool AnotherInstancePays(uint32_t held, uint64_t held_bytes,
                                   uint64_t instance_bytes) {
  if (held < kFewestHeldOutputs) return false;
  return instance_bytes <= held_bytes + held * kBytesAHeldOutput;
}

// Replays that a plan did without its last instance before that is dropped.
inline constexpr uint64_t kReplaysWithoutInstance = 1024;

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_INSTANCE_POLICY_H_
