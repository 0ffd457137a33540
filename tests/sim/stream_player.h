// Plays a recorded stream through a session, and plainly beside it.

#ifndef REPRISE_TESTS_SIM_STREAM_PLAYER_H_
#define REPRISE_TESTS_SIM_STREAM_PLAYER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/trace/op.h"
#include "scheduler/session.h"
#include "tests/sim/model_frontend.h"
#include "tests/sim/recorded_stream.h"

namespace reprise::sim {

// Has the names of a recording's operators.
class RecordedFrontend : public ModelFrontend {
 public:
  explicit RecordedFrontend(std::vector<std::string> names)
      : names_(std::move(names)) {}
  std::string OpName(engine::OpId op) const override { return names_.at(op); }
  bool MayBeNondeterministic(engine::OpId) const override { return false; }

  // Recorded calls compute something else than eager: a fault that is planted.
  bool runs_wrongly = false;

 private:
  std::vector<std::string> names_;
};

// What an op computes does not matter, as long as it depends on all that the op
// reads: each element that it writes is a hash of its words and of some
// elements of its operands. Storages live from their first op to their last
// one, in the last pass to the end. Single-thread.
class StreamPlayer {
 public:
  // Borrows all.
  StreamPlayer(const RecordedStream* stream, RecordedFrontend* frontend,
               scheduler::Session* session);

  // Plays the next op; false: there is none.
  bool Step();
  // The op that comes next.
  size_t position() const { return position_; }
  // Behind the last op, and once the session is interrupted: what ops read that
  // the program waited for, and what the last pass has used, has one content on
  // both sides.
  bool CompareAll();

 private:
  // The storage's memory in the session, and beside it.
  struct Storage {
    ModelTensor watched;
    ModelTensor plain;
  };

  void Compare(size_t storage);
  ModelTensor& At(size_t storage, bool watched);
  size_t ElementsOf(size_t storage) const;
  ModelTensor Allocate(size_t storage, bool watched);
  std::byte* AddressOf(const RecordedTensor& tensor, bool watched);
  // As eager does.
  void Run(const RecordedOp& op, ModelFrontend* frontend, bool watched);
  // Through the session.
  void Show(const RecordedOp& op);
  void TakeFollowed(const RecordedOp& op);
  std::vector<engine::ResultView> ResultsOf(const RecordedOp& op);

  const RecordedStream& stream_;
  RecordedFrontend& frontend_;
  scheduler::Session& session_;
  ModelFrontend plain_frontend_;
  std::map<size_t, Storage> storages_;
  // By op, the storages that it is the last to name.
  std::vector<std::vector<size_t>> ends_;
  size_t position_ = 0;
  bool same_bits_ = true;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_STREAM_PLAYER_H_
