// Where the passes that the program tells of begin and end.

#ifndef REPRISE_SCHEDULER_PASS_EDGES_H_
#define REPRISE_SCHEDULER_PASS_EDGES_H_

#include <cstdint>

namespace reprise::scheduler {

// Places in a stream go by how many ops have come before them. An edge is a
// cut or the end of a pass. Single-thread.
class PassEdges {
 public:
  // Between BeginPass and EndPass.
  bool in_pass() const { return in_pass_; }
  // So many ops have come. A pass is not told inside of another one.
  void BeginPass(uint64_t ops) {
    in_pass_ = true;
    begin_ = ops;
  }
  void EndPass() { in_pass_ = false; }
  // The op that came last, as the one of that number, is the first one since
  // the last pass began.
  bool IsFirst(uint64_t ops) const { return ops == begin_ + 1; }

  // There is an edge where so many ops have come.
  void Note(uint64_t ops) { edge_ = ops; }
  // No op has come since the last edge.
  bool IsAt(uint64_t ops) const { return ops == edge_; }

 private:
  bool in_pass_ = false;
  uint64_t begin_ = 0;  // of the pass that began last
  uint64_t edge_ = 0;
};

}  // namespace reprise::scheduler

#endif  // REPRISE_SCHEDULER_PASS_EDGES_H_
