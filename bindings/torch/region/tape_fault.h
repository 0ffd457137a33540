// What keeps a recording from being a tape.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_FAULT_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_FAULT_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "bindings/torch/region/refusals.h"

namespace reprise::bindings {

// Of one recording: the first reason why its calls cannot be written down, and
// the first thing in which they are not what was expected; and the program's
// line where the first of the two was met. Later ones are not kept. One thread
// at a time.
class TapeFault {
 public:
  void Refuse(std::string reason);
  void Refuse(Refusal refusal) { Refuse(SentenceOf(refusal)); }
  // Of that operator, or of what has that name.
  void Refuse(Refusal refusal, const c10::OperatorHandle& op);
  void Refuse(Refusal refusal, std::string_view of);
  // For what was at that place.
  void RefuseAt(uint64_t question, Refusal refusal);
  // `question`: where the program was (AskForPlace); 0: where it is now.
  void Differ(std::string how, uint64_t question = 0);

  bool refused() const { return !refused_.empty(); }
  bool differs() const { return !differs_.empty(); }
  // That of a refusal, rather. Empty: there is none.
  const std::string& reason() const { return refused() ? refused_ : differs_; }
  // Once, behind the last call. Empty: nobody knows.
  std::string TakePlace();

  // Where the program is now, for RefuseAt.
  static uint64_t AskForPlace();

 private:
  std::string refused_;
  std::string differs_;
  uint64_t question_ = 0;  // of the first of these two
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_FAULT_H_
