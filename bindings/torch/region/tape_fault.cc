#include "bindings/torch/region/tape_fault.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "bindings/torch/runtime/op_policy.h"
#include "bindings/torch/runtime/program_place.h"
#include "engine/trace/frontend.h"

namespace reprise::bindings {
namespace {

// Where the program was, by question.
class Places final : public engine::PlaceAsker {
 public:
  uint64_t Ask() {
    const uint64_t question = next_.fetch_add(1, std::memory_order_relaxed);
    AskProgramPlace(this, question);
    return question;
  }
  std::string Take(uint64_t question) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(question);
    if (found == places_.end()) return {};
    std::string place = std::move(found->second);
    places_.clear();
    return place;
  }
  void Tell(uint64_t question, const std::string& place) override {
    const std::lock_guard lock(mutex_);
    places_[question] = place;
  }

 private:
  std::atomic<uint64_t> next_{1};
  std::mutex mutex_;
  std::map<uint64_t, std::string> places_;  // guarded by mutex_
};

Places& ProgramPlaces() {
  static auto* const places = new Places;  // asked for as long as Python runs
  return *places;
}

}  // namespace

void TapeFault::Refuse(std::string reason) {
  if (refused()) return;
  if (!differs()) question_ = AskForPlace();
  refused_ = std::move(reason);
}

void TapeFault::Refuse(Refusal refusal, const c10::OperatorHandle& op) {
  if (!refused()) Refuse(refusal, FullName(op.operator_name()));
}

void TapeFault::Refuse(Refusal refusal, std::string_view of) {
  if (!refused()) Refuse(std::string(of) + SentenceOf(refusal));
}

void TapeFault::RefuseAt(uint64_t question, Refusal refusal) {
  if (refused()) return;
  question_ = question;
  refused_ = SentenceOf(refusal);
}

void TapeFault::Differ(std::string how, uint64_t question) {
  if (differs()) return;
  if (!refused()) question_ = question != 0 ? question : AskForPlace();
  differs_ = std::move(how);
}

std::string TapeFault::TakePlace() { return ProgramPlaces().Take(question_); }

uint64_t TapeFault::AskForPlace() { return ProgramPlaces().Ask(); }

}  // namespace reprise::bindings
