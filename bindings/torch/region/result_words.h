// What Python can see of an operator's results without another operator.

#ifndef REPRISE_BINDINGS_TORCH_REGION_RESULT_WORDS_H_
#define REPRISE_BINDINGS_TORCH_REGION_RESULT_WORDS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <span>

namespace reprise::bindings {

// Types, sizes and strides of tensors, and what else there is but tensors: how
// many elements a list has, numbers by their bits, texts. As a list of
// integers, so that such values are compared as others are (SameValue). Not the
// device.
c10::IValue WordsOf(std::span<const c10::IValue> results);

// Whether these results have such words. About 5 ns a tensor's dimension.
bool HaveWords(std::span<const c10::IValue> results, const c10::IValue& words);

// What the operator's own kernel for tensors without data says of the results,
// as `torch.library.register_fake` and `TORCH_LIBRARY_IMPL(..., Meta, ...)`
// give it one. That kernel knows no data: what it gives depends on the forms
// and the numbers of `arguments` alone. Nothing: there is none, or it raises an
// error, because the results depend on data. Calls that kernel, which may be
// Python's.
std::optional<c10::IValue> DeclaredWords(
    const c10::OperatorHandle& op, std::span<const c10::IValue> arguments);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_RESULT_WORDS_H_
