// What is known of a tape's stretches, and when a run is to learn more.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCHES_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCHES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bindings/torch/region/tape_stretch.h"
#include "engine/program/program.h"

namespace reprise::bindings {

// Of one tape. Its runs (StretchRun) learn stretches where ops are followed one
// by one, and go over those that are known. A tape has several in one place
// where it runs several times in one pass of a plan, or in several plans.
//
// A run learns again after a pause, which gets longer while nothing new is
// found: sooner where a stretch was of no use, or where more ops were shown
// than in the run that learned last. Thread-safe.
class TapeStretches {
 public:
  // A run begins: it learns, or goes over what is known. Null: nothing is.
  struct Start {
    bool learns = false;
    std::shared_ptr<const TapeStretchList> known;
  };
  Start Begin();

  // Of a run that ends: it saw a replay, and `learned` is all that it found; so
  // many ops were followed and not gone over; a stretch was of no use.
  struct Outcome {
    bool has_learned = false;
    uint64_t shown = 0;
    bool missed = false;
  };
  void Note(TapeStretchList learned, const Outcome& outcome);

  // Whether a run learns from that call on, in that plan: once, unless the last
  // time was just now.
  bool Tries(size_t call, const std::weak_ptr<const engine::Program>& program);

 private:
  std::mutex mutex_;
  std::shared_ptr<const TapeStretchList>
      all_;  // guarded by mutex_, as the rest
  uint64_t runs_ = 0;
  uint64_t learned_at_ = 0;  // the run
  uint64_t pause_ = 1;       // runs until it learns again, if something is new
  uint64_t shown_ = 0;       // in the run that learned last
  bool missed_ = true;       // since then
  struct Tried {
    size_t call = 0;
    std::weak_ptr<const engine::Program> program = {};
  };
  std::vector<Tried> tried_;  // the last ones
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_STRETCHES_H_
