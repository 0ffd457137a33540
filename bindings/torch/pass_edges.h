// Sessions are told where a region's call begins and ends.

#ifndef REPRISE_BINDINGS_TORCH_PASS_EDGES_H_
#define REPRISE_BINDINGS_TORCH_PASS_EDGES_H_

#include <cstdint>

#include "scheduler/session.h"

namespace reprise::bindings {

// A pass of this thread's (scheduler::Session::BeginPass), on the current
// stream of the current device, for as long as this lives; on a thread that is
// inside an op, or where nobody watches, it is none. The destructor runs on the
// same thread. About 50 ns.
class PassEdges {
 public:
  PassEdges();
  ~PassEdges();
  PassEdges(const PassEdges&) = delete;
  PassEdges& operator=(const PassEdges&) = delete;

 private:
  uint64_t epoch_ = 0;
  scheduler::Session* session_ = nullptr;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_PASS_EDGES_H_
