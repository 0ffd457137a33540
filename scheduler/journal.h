// What a session tells people about: counters, cuts, rejections, squashes.

#ifndef REPRISE_SCHEDULER_JOURNAL_H_
#define REPRISE_SCHEDULER_JOURNAL_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "engine/op.h"
#include "scheduler/stats.h"

namespace reprise::scheduler {

// Counted under the session's lock, read under it too.
struct Journal {
  Stats stats;
  // (operator, reason) -> times.
  std::map<std::pair<engine::OpId, std::string>, uint64_t> cuts;
  // (signature as hex, reason) -> times.
  std::map<std::pair<std::string, std::string>, uint64_t> rejections;
  // (signature as hex, op index, what was found instead) -> times.
  std::map<std::tuple<std::string, uint32_t, std::string>, uint64_t> squashes;
  // A sentence -> times.
  std::map<std::string, uint64_t> notes;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_JOURNAL_H_
