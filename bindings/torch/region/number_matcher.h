// Which numbers of Python's an operator's numbers are.

#ifndef REPRISE_BINDINGS_TORCH_REGION_NUMBER_MATCHER_H_
#define REPRISE_BINDINGS_TORCH_REGION_NUMBER_MATCHER_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Two recordings of the same calls, in which operators were given different
// numbers: finds which number of the call, or which one that Python computed,
// had both values. Where several had, each of them is it while they are equal,
// which becomes a condition of the tape (TapeArithmetic::equal). A number that
// was the same one in all recordings has to stay it.
//
// Each difference is noted when it comes. What was computed is known at the
// end. Single thread.
class NumberMatcher {
 public:
  // An operator's argument, or an element of a list that is one.
  struct Place {
    size_t call = 0;
    size_t argument = 0;
    std::optional<uint32_t> element = {};
  };
  // At this place the number was another one.
  void Note(const Place& place, double was, double is) {
    differences_.push_back({place, was, is});
    NoteValues(was, is);
  }
  // At this place stands that number of the tape's.
  void Expect(const Place& place, uint32_t number, double is) {
    expectations_.push_back({place, number, is});
    NoteValues(is, is);
  }
  // Bits of an operator's number in both recordings; where it is a number of
  // the tape's, of this recording twice.
  using Values = std::pair<uint64_t, uint64_t>;
  // Those that were met for the first time since this was asked.
  std::vector<Values> TakeNew() { return std::exchange(new_, {}); }
  // Those by which `Differs` gave a reason; if one number is the reason.
  const std::optional<Values>& reason() const { return reason_; }
  // Somewhere stands that number of the call's, as it did.
  void Confirm(uint32_t given, bool negated) {
    confirmed_.emplace(given, negated);
  }
  // From the first call on, with another tape.
  void Restart() {
    differences_.clear();
    expectations_.clear();
    confirmed_.clear();
    reason_.reset();
  }

  // At the end. Both records are changed: what varies in them varies by the
  // number that was found. Nothing: all is explained; else what is not.
  std::optional<std::string> Differs(TapeRecord& expected, TapeRecord& written);

  // A tensor of the host may be made of that number of the call's, by no call.
  static bool MayBeInConstant(const TapeRecord& expected,
                              const TapeRecord& written, size_t number);

 private:
  struct Difference {
    Place place;
    double was = 0;
    double is = 0;
  };
  struct Expectation {
    Place place;
    uint32_t number = 0;
    double is = 0;
  };
  void NoteValues(double was, double is);
  std::optional<std::string> ReadsDiffer(TapeRecord& expected,
                                         const TapeRecord& written) const;
  // A tensor of the host holds what a number that varies becomes in its type.
  static bool IsMadeOf(const at::Tensor& content, double was, double is);
  std::optional<std::string> ConstantsDiffer(const TapeRecord& expected) const;
  // What is computed, in both.
  std::optional<std::string> ComputedDiffer(TapeRecord& expected,
                                            const TapeRecord& written);
  std::optional<std::string> Explain(const Difference& difference,
                                     TapeRecord& expected, TapeRecord& written);
  // What was taken for that number of the call's may be another one that had
  // the same values. False: that cannot be made a condition.
  bool MayStand(uint32_t given, bool negated, TapeRecord& expected,
                const TapeRecord& written);
  // A number of the call's that had both values; if there is one alone.
  struct Given {
    uint32_t index = 0;
    bool negated = false;
  };
  std::optional<Given> FindGiven(const Difference& difference,
                                 const TapeRecord& expected,
                                 const TapeRecord& written) const;
  // All of those numbers are to be equal, of which `one` is one.
  void HaveEqual(const std::vector<uint32_t>& numbers, uint32_t one,
                 TapeArithmetic& arithmetic);

  std::vector<Difference> differences_;
  std::vector<Expectation> expectations_;
  std::set<std::pair<uint32_t, bool>> confirmed_;
  std::set<Values> known_;
  std::vector<Values> new_;
  std::optional<Values> reason_;
  std::vector<double> was_;  // by node
  std::vector<double> is_;
  std::map<Values, std::vector<uint32_t>> by_values_;  // nodes
  std::set<uint32_t> have_equal_;                      // by node that was taken
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_NUMBER_MATCHER_H_
