// Whether a tape that is being written is one that was expected.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_MATCHER_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/torch/region/number_matcher.h"
#include "bindings/torch/region/tape.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Compares call by call, with one of several tapes that differ in what Python
// reads. Where numbers that were given differ, and calls take just these, they
// vary from now on; a tensor of the host that is another one with the same
// content is a constant. Single thread.
class TapeMatcher {
 public:
  // `written` is borrowed, and changed where constants and numbers are found.
  TapeMatcher(std::vector<std::shared_ptr<const Tape>> expected,
              TapeRecord* written);

  // Of the call that was written last: in what it differs from what is
  // expected. Nothing: it does not. Not called again behind a difference.
  std::optional<std::string> Differs(size_t call);
  // The same of all behind the last call. `computed`, by number: Python did
  // something with it but to hand it on, so that it cannot vary; empty: see
  // TapeRecorder::End.
  std::optional<std::string> EndDiffers(const std::vector<bool>& computed);
  // Operators were given other numbers: the end tells which differ.
  const std::optional<NumberMatcher::Values>& other_number() const {
    return numbers_.reason();
  }
  std::vector<NumberMatcher::Values> TakeNewNumbers() {
    return numbers_.TakeNew();
  }
  // A number that differs is one that varies. (One that no call was given may
  // have decided which were made.)
  bool NumbersFit() const;

  // It was none of them: what was found to vary by them does not.
  void ForgetNumbers();

  // The difference is in what Python read.
  bool read_another() const { return read_another_; }
  // Which of the tapes is expected.
  size_t which() const { return which_; }
  // That one, with what was found to vary.
  TapeRecord TakeMatched() { return *std::move(expected_); }

 private:
  std::optional<std::string> DifferenceAt(size_t call);
  // Another one of the tapes expects what was written up to this call.
  bool ExpectAnother(size_t call);
  bool SameRegister(int32_t expected, int32_t written);
  // But for where in its storage an argument begins, and with it a view.
  bool SameForm(const TapeRegister& then, const TapeRegister& now) const;
  // What was named as `written`, by where it lies, may be `expected` as well:
  // both lay elsewhere in what is expected, where the name was clear.
  bool MayBe(int32_t expected, int32_t written) const;
  // By so many bytes the register begins later in its storage than it did.
  int64_t MovedBy(int32_t reg) const;
  // Constants that nobody had read when they were met hold the same if somebody
  // has by now.
  bool HoldTheSame();
  bool SameContents() const;
  bool SameResults(const TapeCall& expected, const TapeCall& written);
  bool SameArgument(TapeArgument& expected, TapeArgument& written,
                    const NumberMatcher::Place& place, std::string& how);
  // Of the call's numbers: why one that operators take may not vary. Lets those
  // vary that nobody takes. `computed`: see EndDiffers.
  std::optional<std::string> NumbersDiffer(const std::vector<bool>& computed);
  // Of an argument that varies.
  bool SameNumbers(const TapeArgument& expected, TapeArgument& written,
                   const NumberMatcher::Place& place, std::string& how);

  const std::vector<std::shared_ptr<const Tape>> all_;
  TapeRecord* const written_;
  NumberMatcher numbers_;
  std::optional<TapeRecord> expected_;  // a copy; nothing is expected: none
  size_t which_ = 0;
  std::vector<size_t> unread_;  // registers
  bool read_another_ = false;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_MATCHER_H_
