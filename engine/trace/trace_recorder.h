// Keeps a trace while eager runs it.

#ifndef REPRISE_ENGINE_TRACE_TRACE_RECORDER_H_
#define REPRISE_ENGINE_TRACE_TRACE_RECORDER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/trace/library_frees.h"
#include "engine/trace/op.h"
#include "engine/trace/open_trace.h"
#include "engine/trace/seen_bytes.h"
#include "engine/trace/trace.h"
#include "engine/trace/work_recorder.h"
#include "engine/trace/written_bytes.h"

namespace reprise::engine {

// Records one pass of a trace, from its head to its end. Holds weak references
// to the storages it meets and no strong one. Destroyed in mid-pass, it stops
// the recording and nothing is kept. Called under the session's lock.
class TraceRecorder {
 public:
  // Of the pass, as far as it is known.
  struct Foreseen {
    size_t ops = 0;
    uint64_t bytes_at_once = 0;  // Trace's
  };
  static base::Result<std::unique_ptr<TraceRecorder>> Start(
      Frontend* frontend, WorkRecorder* work, WorkRecorder::Recording recording,
      const Foreseen& foreseen);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // The op comes next. Why the trace has to end before it, if it does (a
  // literal): it uses memory of which no op of the trace, `open`, tells what it
  // holds. A value that was made without content is read, of which ops have
  // not written all; or (on the host, where memory can be looked at) a value
  // has changed that no op has written. Null: it does not.
  const char* WhyReadsUnseen(const OpView& op, const OpenTrace& open) const;

  // `words` is cache::HashWords of the op's words, `before` the signature of
  // the ops before; `operands` as numbered by the open trace, which has
  // `values` values now. Failing, the recording is to be dropped: nothing can
  // be recorded now.
  base::Status Enter(const OpView& op, const cache::Signature& words,
                     const cache::Signature& before,
                     std::span<const ValueRef> operands, ValueId values);
  // Of the op that was entered last: how to run it again (host executor).
  void GiveCall(std::unique_ptr<Call> call);
  // `result_values` as numbered by the open trace. Says why the op cannot be
  // part of a trace, or nothing.
  std::string Leave(const OpView& op, std::span<const ResultView> results,
                    std::span<const ValueId> result_values, ValueId values);

  // Ends the pass.
  std::unique_ptr<Trace> Finish(const cache::Signature& signature);

 private:
  TraceRecorder(Frontend* frontend, WorkRecorder* work);

  // The op has run.
  void NoteDraw(TracedOp& op) const;
  // Of an op that has drawn: which results are the generator's seed and offset.
  // All others must be the same each time, as its recordings tell.
  void NoteTold(TracedOp& op, std::span<const ResultView> results) const;

  // The op has run: writes its results down. Tensors among them, and those that
  // share memory with an operand.
  struct Tensors {
    size_t all = 0;
    size_t aliases = 0;
  };
  Tensors NoteResults(const OpView& op, std::span<const ResultView> results,
                      std::span<const ValueId> result_values);
  // A result that is a value of the trace.
  void NoteValue(const OpView& op, const ResultView& result, ValueId id,
                 ResultSpec& spec);

  // The op has run: notes which memory it has written, and what is there.
  void NoteBytes(const OpView& op, std::span<const ResultView> results,
                 std::span<const ValueId> result_values);

  // Looks whether values have died, at an op now and then where there are many;
  // at each op at those that held much of the memory when they came.
  void NoteDeaths(uint32_t op);
  void NoteBirth(ValueId value);
  bool IsLarge(const Value& value) const {
    constexpr uint64_t kFewest = 16;  // that hold all of it
    return value.size_bytes >= alive_bytes_ / kFewest;
  }

  Frontend* frontend_;
  WorkRecorder* work_;
  std::unique_ptr<Trace> trace_;

  std::vector<ValueId> alive_;  // of those that the trace makes
  std::vector<ValueId> large_;  // of those
  uint64_t alive_bytes_ = 0;
  size_t since_looked_ = 0;      // ops
  std::vector<ValueId> unused_;  // that have arrived, and no op uses yet
  // Of values that were made without content.
  std::unordered_map<ValueId, WrittenBytes> written_;
  SeenBytes seen_;  // where memory can be read
  // When it began.
  LibraryFrees::Seen library_frees_;
  bool recording_ = false;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_TRACE_TRACE_RECORDER_H_
