// A session that records and follows without judgement, behind the hooks of
// this process.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_FAKE_SESSION_H_
#define REPRISE_TESTS_BINDINGS_TORCH_FAKE_SESSION_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/trace/op.h"
#include "engine/trace/trace.h"
#include "scheduler/runtime.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// One op that the session was shown.
struct SeenOp {
  std::string name;
  std::vector<uint64_t> words;
  std::vector<engine::Scalar> scalars;
  std::vector<engine::Operand> operands;  // their spans are stale
  std::string cut;
  bool may_use_generator = false;
  bool may_try_kernels = false;
  bool may_trap = false;
  bool by_eager = false;
  bool left = false;
  bool warned = false;
  bool abandoned = false;
  std::vector<engine::ResultView> results;  // their spans are stale
};

// Recording, it keeps each op with its results' bytes; following, it hands
// those out again, op by op, as long as the words are the same; replaying, it
// runs the recorded calls on the operands of today instead. Single thread.
class FakeSession final : public scheduler::Session {
 public:
  enum class Mode : uint8_t { kPass, kAway, kRecord, kFollow, kReplay };

  // Becomes the session of every stream; at most one at a time.
  explicit FakeSession(
      scheduler::DeviceKind kind = scheduler::DeviceKind::kHost);
  ~FakeSession() override;

  void Record();
  void Follow();
  void Replay();  // of what was recorded after WantCalls
  void Pass() { mode_ = Mode::kPass; }
  void GoAway() { mode_ = Mode::kAway; }  // paused
  void WantCalls() { wants_calls_ = true; }
  // What an op changed and did not say: operands, the random generator.
  const std::vector<std::string>& hidden_effects() const { return hidden_; }
  // Why a recorded call failed, or an op was not the expected one.
  const std::vector<std::string>& failures() const { return failures_; }
  const std::vector<SeenOp>& seen() const { return seen_; }
  size_t follows() const { return follows_; }
  size_t entered() const { return entered_; }
  size_t interrupts() const { return interrupts_; }
  // Those that came from inside of an op that the book of ops had.
  size_t interrupts_by_noted() const { return interrupts_by_noted_; }
  // Runs the i-th recorded call on its operands' memory and returns the bytes
  // of each result.
  std::vector<std::vector<char>> RunCall(size_t i);
  engine::Call* call(size_t i) { return ops_[i].call.get(); }

  scheduler::Action Enter(const engine::OpView& op) override;
  scheduler::Action EnterTold(const engine::OpView& op) override {
    return Enter(op);
  }
  bool wants_call() const override { return wants_calls_; }
  void Leave(const engine::OpView& op,
             std::span<const engine::ResultView> results,
             std::unique_ptr<engine::Call> call) override;
  void Abandon(const engine::OpView& op) override;
  bool Interrupt(const char*) override;
  void InterruptIfUsed(const scheduler::MemoryRanges&, const char*) override {}
  engine::Block TakeBlock(engine::ValueId value) override;
  void Own(engine::ValueId, engine::StorageToken) override {}
  engine::GeneratorState drawn() const override { return {}; }

 private:
  bool RunExpected(const engine::OpView& op);
  at::Tensor Bytes(uint64_t base, uint64_t size_bytes) const;
  at::Tensor GeneratorState() const;
  engine::ValueId ValueOf(engine::StorageToken storage, bool* fresh);
  void CheckOperands(const engine::OpView& op);

  const scheduler::DeviceKind kind_;
  Mode mode_ = Mode::kPass;
  bool wants_calls_ = false;
  size_t entered_ = 0;
  size_t interrupts_ = 0;
  size_t interrupts_by_noted_ = 0;
  size_t follows_ = 0;
  size_t next_ = 0;

  // What was recorded, op by op.
  std::vector<SeenOp> seen_;
  std::vector<engine::TracedOp> ops_;
  std::vector<at::Tensor> values_;  // bytes, by value
  std::map<engine::StorageToken, engine::ValueId> known_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> retained_;

  // Of the op that is being observed, or replayed.
  std::vector<at::Tensor> before_;  // bytes of the operands' storages
  at::Tensor generator_before_;
  std::map<engine::ValueId, engine::Block> blocks_;

  std::vector<std::string> failures_;
  std::vector<std::string> hidden_;
};

// What SessionFor answers, and whether hooks watch.
void Serve(scheduler::Session* session,
           scheduler::DeviceKind kind = scheduler::DeviceKind::kHost);
void StopServing();

// From now on until StopServing there are other sessions that are told of ops.
void TellOthers(std::function<void(const engine::OpView&)> before_op);
// What else they have been told since.
struct ToldBesides {
  int waits = 0;           // HostHasWaited
  int unknown_writes = 0;  // BeforeUnknownWrites
  int unwatched = 0;       // NoteUnwatchedWork
};
ToldBesides Told();

// From now on until StopServing no op is shown, and so many were passed over.
void FallAsleep();
uint64_t PassedOver();
void WakeUp();

// From now on until StopServing no runtime is active, though hooks watch still.
void DisableMeanwhile();

}  // namespace reprise::bindings

#endif  // REPRISE_TESTS_BINDINGS_TORCH_FAKE_SESSION_H_
