// A session that answers as it is told to.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_SCRIPTED_SESSION_H_
#define REPRISE_TESTS_BINDINGS_TORCH_SCRIPTED_SESSION_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/trace/block.h"
#include "engine/trace/generator.h"
#include "engine/trace/op.h"
#include "engine/trace/trace.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Notes what it is asked, and answers with what was set before. Single thread.
class ScriptedSession final : public scheduler::Session {
 public:
  ScriptedSession() { followed_ = &op; }

  scheduler::Action answer = scheduler::Action::kEager;
  scheduler::Action answer_once_told = scheduler::Action::kEager;
  bool wants = false;   // wants_call
  engine::TracedOp op;  // that is followed
  std::function<engine::Block(engine::ValueId)> block;
  engine::GeneratorState state;  // where the op drew

  std::vector<std::string> calls;  // in their order
  std::vector<std::pair<engine::ValueId, engine::StorageToken>> owned;
  size_t results = 0;      // of the op that was left last
  bool with_call = false;  // it came with its arguments, boxed
  size_t taken = 0;        // blocks

  scheduler::Action Enter(const engine::OpView&) override {
    calls.push_back("enter");
    return answer;
  }
  scheduler::Action EnterTold(const engine::OpView&) override {
    calls.push_back("enter told");
    return answer_once_told;
  }
  bool wants_call() const override { return wants; }
  void Leave(const engine::OpView&, std::span<const engine::ResultView> views,
             std::unique_ptr<engine::Call> call) override {
    calls.push_back("leave");
    results = views.size();
    with_call = call != nullptr;
  }
  void Abandon(const engine::OpView&) override { calls.push_back("abandon"); }
  bool Interrupt(const char*) override {
    calls.push_back("interrupt");
    return false;
  }
  void InterruptIfUsed(const scheduler::MemoryRanges&, const char*) override {
    calls.push_back("interrupt");
  }
  engine::Block TakeBlock(engine::ValueId value) override {
    ++taken;
    return block(value);
  }
  void Own(engine::ValueId value, engine::StorageToken storage) override {
    owned.emplace_back(value, storage);
  }
  engine::GeneratorState drawn() const override { return state; }
};

}  // namespace reprise::bindings

#endif  // REPRISE_TESTS_BINDINGS_TORCH_SCRIPTED_SESSION_H_
