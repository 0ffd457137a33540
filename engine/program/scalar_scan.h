// Where the launches of an op hold numbers that changed.

#ifndef REPRISE_ENGINE_PROGRAM_SCALAR_SCAN_H_
#define REPRISE_ENGINE_PROGRAM_SCALAR_SCAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/parameter_scan.h"
#include "engine/program/effects.h"
#include "engine/trace/scalar.h"
#include "engine/trace/trace.h"

namespace reprise::engine {

// Of one op: launches count from its first one, and `op` is left unset.
struct NumberPlaces {
  std::vector<ScalarSite> sites;
  std::vector<ScalarCopy> copies;
  std::vector<ScalarRounding> roundings;
  // Each number has a place, or may have one that did not change. Else
  // something else is made of one.
  bool complete = false;
};

// Explains, of the words that differ between two recordings of an op, those
// that hold one of its `changing` numbers; others are unwritten memory
// (OpView::scalars). Pure function of its arguments. Cost: n log n in the
// words, and in the numbers that differ from each other.
NumberPlaces FindNumbers(const TracedOp& first, const TracedOp& second,
                         const SlotSet& changing,
                         std::span<const device::ImageWord> words);

// Whether what two recordings explain can be known to be right with the numbers
// `bits`, too, one a slot of the op: no two ways in which both recordings may
// hold a number say another thing of these, and none of these is another
// float32 where a number changed too little in between to be one. Looks at each
// number by itself.
bool TellOf(const TracedOp& first, const TracedOp& second,
            std::span<const uint64_t> bits);

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_PROGRAM_SCALAR_SCAN_H_
