// Where operators were given other numbers than those that were expected.

#ifndef REPRISE_BINDINGS_TORCH_REGION_NUMBER_PLACES_H_
#define REPRISE_BINDINGS_TORCH_REGION_NUMBER_PLACES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "bindings/torch/region/number_matcher.h"

namespace reprise::bindings {

// The end of a recording tells which numbers differ, and the program is
// elsewhere by then. So where it is, is asked when such numbers first come. One
// thread at a time.
class NumberPlaces {
 public:
  using Values = NumberMatcher::Values;

  // An operator was given these for the first time; empty: none.
  void Ask(const std::vector<Values>& numbers);
  // The question where these came (TapeFault::AskForPlace); of none, or of
  // others, where the first ones did. 0: there were none.
  uint64_t Of(const std::optional<Values>& numbers) const;

 private:
  uint64_t first_ = 0;
  std::map<Values, uint64_t> questions_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_NUMBER_PLACES_H_
