// The tapes of one callable, for arguments of one structure.

#ifndef REPRISE_BINDINGS_TORCH_REGION_REGION_VARIANTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_REGION_VARIANTS_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_cache.h"
#include "bindings/torch/region/tape_recorder.h"

namespace reprise::bindings {

// A tape is trusted once a second recording has shown the same calls. Of the
// two one is given ordinary floats and one such that note what Python does with
// them, so that a callable that can tell them apart is found. From then
// on calls run it, but for one in 256, which is recorded again, and after each
// that showed no other calls one in twice as many, down to one in 4,096:
//
//   unknown ─record─► seen ─record, same─► trusted ─sample, another─► withdrawn
//                      └──record, another──► seen
//
// Which of the tapes a call belongs to say the forms of its tensors, its
// numbers and torch's modes (Tape::Fits), and what Python would read
// (RunTape). TapeCache says which of them are kept.
// Thread-safe; calls run side by side.
class RegionVariants {
 public:
  static constexpr uint64_t kFirstSample = 256;
  static constexpr uint64_t kSeldomSample = 4096;

  enum class Step : int64_t {
    kDone = 0,    // its tape was run
    kRecord = 1,  // run the callable between Begin and End
    kPlain = 2,   // run the callable: nothing can be written down now
    kPassed = 4,  // run it: too much has come that did not come again
    kRaised = 7,  // run it: it may handle the error of an operator
  };
  // `budget`: see TapeCache.
  explicit RegionVariants(TapePass pass = TapePass::kWhole,
                          size_t budget = TapeCache::kBudget)
      : pass_(pass), tapes_(budget) {}

  struct Ran {
    Step step = Step::kPlain;
    int64_t tape = 0;  // names it
    std::vector<at::Tensor> outputs;
    // Of a forward pass: what its outputs are to be given, in this order.
    std::vector<std::shared_ptr<RegionHistory>> histories = {};
  };
  // Tapes go by what tensors of the host hold, which Run looks at.
  bool reads_contents() const {
    return reads_contents_.load(std::memory_order_relaxed);
  }
  // Raises what an operator raises. `held`: a tape that may be run, of which
  // the caller keeps all that comes from outside from going.
  Ran Run(const TapeInputs& inputs, const Tape* held = nullptr);
  // The tape that was run last; null: there is none, or other threads are at
  // work. Never waits.
  std::shared_ptr<const Tape> RunLast() const;
  // Calls that a tape was run or recorded for.
  uint64_t uses() const;
  // Of forward passes: how many backward passes a tape was run for.
  const std::shared_ptr<std::atomic<uint64_t>>& backward() const {
    return backward_;
  }
  // What comes with runs of that tape. Nothing, where it is gone.
  void KeepHistory(int64_t tape, std::shared_ptr<RegionHistory> history);

  enum class Verdict : int64_t {
    kSeen = 0,
    kTrusted = 1,    // and it was not before
    kSame = 2,       // a sample
    kAgain = 3,      // at another level, from the next call on
    kRefused = 4,    // it cannot be written down
    kDiffers = 5,    // from the call before, once too often
    kWithdrawn = 6,  // a trusted tape is not what the callable does now
  };
  struct Learned {
    Verdict verdict = Verdict::kRefused;
    int64_t tape = 0;
    uint64_t calls = 0;
    uint64_t reads = 0;  // of these; see Tape::reads
    std::string reason;  // of the last three
    std::string place;   // the line of the program's; empty: not known
    // See TapeRecorder::Outcome.
    bool draws = false;
    bool writes_outside = false;
    std::vector<at::Tensor> written = {};
    std::vector<size_t> saved = {};
    bool calls_others = false;  // Tape::calls_others
    std::string no_forward_pass = {};
    std::vector<int64_t> dropped = {};  // tapes that have gone
  };
  // False: somebody else records. `owner` is who may abandon it.
  // `seen`: see TapeNumbers::seen.
  bool Begin(std::vector<at::Tensor> inputs, std::vector<double> numbers,
             std::vector<at::Tensor> watched, int64_t owner = 0,
             size_t seen = SIZE_MAX);
  // By the thread that began, before End; see TapeRecorder::NoteArithmetic.
  void NoteArithmetic(std::vector<NumberNode> nodes,
                      std::vector<double> values);
  // By the thread that began. `computed`, by number: Python did something with
  // it but to hand it on. That, and `saved_from`: see TapeRecorder::End.
  Learned End(const std::vector<at::Tensor>& outputs,
              const std::vector<bool>& computed, size_t saved_from = SIZE_MAX);
  // In place of End: the owner leaves. Nothing where another one records.
  void Abandon(int64_t owner = 0);

  // Every call is recorded from now on.
  void SampleAlways();
  // None is, of a trusted tape's.
  void SampleNever();

 private:
  static constexpr int kMostDifferences = 6;
  // Recordings in a row of what did not come again; then one call in so many.
  static constexpr int kMostFruitless = 32;
  static constexpr int kPassedARecording = 16;
  // Runs that went back, and recordings behind them, in whole runs of a tape
  // that others have not made up for; then one call in so many.
  static constexpr size_t kMostInVain = 128;
  static constexpr size_t kRunsOfARecording = 3;

  // In `ran` what a run of one of them gives, and the step. All that it needs
  // is kept by the caller.
  void RunOne(const std::vector<CachedTape>& fitting, const TapeInputs& inputs,
              const Tape* held, Ran& ran);
  // Its run stands; so many calls of operators were made in vain before.
  void NoteRun(int64_t name, size_t in_vain);
  // None stands, of tapes with so many calls.
  void NoteNoRun(size_t calls, size_t in_vain);
  // What follows from a recording, with the lock.
  // It has shown what `variant` has.
  void Confirm(CachedTape& variant, std::shared_ptr<const Tape> tape,
               Learned& learned);
  // Nothing that is kept was to show the same.
  void Keep(std::shared_ptr<const Tape> tape, Learned& learned);
  // It was to show what `variant` has, and has shown something else.
  void Doubt(CachedTape& variant, std::shared_ptr<const Tape> tape,
             Learned& learned);

  const TapePass pass_;
  const std::shared_ptr<std::atomic<uint64_t>> backward_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  mutable std::mutex mutex_;
  TapeCache tapes_;
  TapeLevel level_ = TapeLevel::kBelowAutograd;
  int differences_ = 0;  // since a tape was last trusted
  int fruitless_ = 0;
  int passed_ = 0;
  size_t in_vain_ = 0;  // calls of operators
  std::atomic<bool> always_{false};
  std::atomic<bool> never_{false};
  std::atomic<bool> reads_contents_{false};  // some tape did
  // Of the thread that records; one in a process.
  std::unique_ptr<TapeRecorder> recorder_;
  int64_t owner_ = 0;              // of the recorder
  std::vector<int64_t> expected_;  // names of those that it expects
  size_t fitting_ = 0;  // of these, the first ones; else numbers differ
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_REGION_VARIANTS_H_
