// How each operator is treated: by its schema, its tags, and lists of names.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_OP_POLICY_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_OP_POLICY_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <span>
#include <string>
#include <string_view>

#include "bindings/torch/runtime/op_info.h"

namespace reprise::bindings {

// "aten::add.Tensor".
std::string FullName(const c10::OperatorName& name);

// The operator may be hooked. Not hooked, because a hook would only cost: views
// and operators that only look at metadata; and those that a hook would hide:
// composites that decompose into hooked operators, kernels written in Python.
// Asks for its kernels, so it is called when they are registered.
bool MayBeHooked(const c10::OperatorHandle& op);

// It has kernels of some kind: without one for a device, or for all, it is
// composite.
bool HasKernel(const c10::OperatorHandle& op);

// It is made of others, and may decide by a number which ones it calls, how
// large their results are, or that it raises an error. Not one that only hands
// its numbers on, by another name.
bool MayDecideByNumbers(const c10::OperatorHandle& op);

// It is made of other operators, and writes arguments past them, through
// pointers of its own. Only its name tells.
bool WritesPastOperators(const c10::OperatorHandle& op);
// All such names, without overloads.
std::span<const std::string_view> NamesThatWritePastOperators();

// Its kernels are torch's own, which torch allows on several streams at once,
// and add numbers in an order that does not depend on what runs beside them.
bool MayRunBeside(std::string_view name);

// Which groups of switches operators of that name read (SwitchClass).
uint8_t SwitchesOf(std::string_view name);

// All but the id.
OpInfo DescribeOp(const c10::OperatorHandle& op, bool factory);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OP_POLICY_H_
