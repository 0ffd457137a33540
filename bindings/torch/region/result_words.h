// What Python can see of an operator's results without another operator.

#ifndef REPRISE_BINDINGS_TORCH_REGION_RESULT_WORDS_H_
#define REPRISE_BINDINGS_TORCH_REGION_RESULT_WORDS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <span>
#include <vector>

namespace reprise::bindings {

// The memory of all tensors among an operator's arguments, in order. Null:
// none.
using PlacesOfData = std::vector<const c10::StorageImpl*>;
PlacesOfData StoragesOf(std::span<const c10::IValue> arguments);

// Types, sizes and strides of tensors, where they begin in their memory, and
// whether that is what was `given` (which is there still), or another result's.
// And what else there is but tensors: how many elements a list has, numbers by
// their bits, texts. As a list of integers, so that such values are compared as
// others are (SameValue). Not the device.
c10::IValue WordsOf(std::span<const c10::IValue> results,
                    const PlacesOfData& given);

// Whether these results have such words. About 5 ns a tensor's dimension.
bool HaveWords(std::span<const c10::IValue> results, const PlacesOfData& given,
               const c10::IValue& words);

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
