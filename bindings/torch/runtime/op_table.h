// The hooked operators, by their ids.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_OP_TABLE_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_OP_TABLE_H_

#include <string>
#include <vector>

#include "bindings/torch/runtime/op_info.h"
#include "engine/trace/op.h"

namespace reprise::bindings {

// Gives the operator an id, and keeps it for the rest of the process: what is
// returned never changes or moves. Thread-safe, as all of these.
const OpInfo* AddToOpTable(OpInfo info);

// "aten::add.Tensor"; empty for an id that no hook has shown.
std::string OpName(engine::OpId op);

// How every hooked operator is treated; empty before RegisterHooksOnce.
std::vector<const OpInfo*> HookedOps();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OP_TABLE_H_
