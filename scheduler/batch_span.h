// What is done of a batch, as a span of its stream's track.

#ifndef REPRISE_SCHEDULER_BATCH_SPAN_H_
#define REPRISE_SCHEDULER_BATCH_SPAN_H_

#include <string>
#include <string_view>
#include <vector>

#include "cache/signature.h"
#include "engine/batch/batch_record.h"
#include "scheduler/span.h"

namespace reprise::scheduler {

// Tells one list of launches from another, without their arguments.
cache::Signature SignatureOf(const std::vector<engine::Node>& nodes);

// What people see of a batch: the program's name for it or, without one, the
// names of its kernels. The nodes' kernels must live.
std::string LabelOf(const std::vector<engine::Node>& nodes,
                    std::string_view name);

// From its making to its end, both on one thread. The track must outlive it.
// Cost while nobody looks: as a Span.
class BatchSpan {
 public:
  BatchSpan(const Track& track, Doing doing,
            const std::vector<engine::Node>& nodes, std::string_view name) {
    if (track.watched()) [[unlikely]]
      Begin(track, doing, nodes, name);
  }
  ~BatchSpan() { span_.End(label_); }
  BatchSpan(const BatchSpan&) = delete;
  BatchSpan& operator=(const BatchSpan&) = delete;

 private:
  void Begin(const Track& track, Doing doing,
             const std::vector<engine::Node>& nodes, std::string_view name);

  Span span_;
  std::string label_;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_BATCH_SPAN_H_
