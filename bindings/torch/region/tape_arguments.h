// What a call is given, as a tape keeps it.

#ifndef REPRISE_BINDINGS_TORCH_REGION_TAPE_ARGUMENTS_H_
#define REPRISE_BINDINGS_TORCH_REGION_TAPE_ARGUMENTS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <vector>

#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// Names the tensors among them, and copies what is a value. Refuses what no
// tape can give to a call.
std::vector<TapeArgument> ArgumentsOf(const c10::OperatorHandle& op,
                                      std::span<const c10::IValue> arguments,
                                      TapeNames& names, TapeFault& fault);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_TAPE_ARGUMENTS_H_
