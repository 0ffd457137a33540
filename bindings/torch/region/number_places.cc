#include "bindings/torch/region/number_places.h"

#include "bindings/torch/region/tape_fault.h"

namespace reprise::bindings {

void NumberPlaces::Ask(const std::vector<Values>& numbers) {
  if (numbers.empty()) return;
  const uint64_t question = TapeFault::AskForPlace();
  if (first_ == 0) first_ = question;
  for (const Values& values : numbers) questions_.emplace(values, question);
}

uint64_t NumberPlaces::Of(const std::optional<Values>& numbers) const {
  if (!numbers.has_value()) return first_;
  const auto found = questions_.find(*numbers);
  return found == questions_.end() ? first_ : found->second;
}

}  // namespace reprise::bindings
