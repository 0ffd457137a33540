// What earlier calls have left on a thread's stack.

#ifndef REPRISE_ENGINE_DEVICE_CLEAR_STACK_H_
#define REPRISE_ENGINE_DEVICE_CLEAR_STACK_H_

#include <cstddef>

namespace reprise::device {

// As deep as an op's frames go before they launch its kernels, mostly.
inline constexpr size_t kClearedStackBytes = size_t{32} << 10;

// Overwrites so much of this thread's stack, from the caller's frame on, with
// zeros. Programs build the arguments of kernels on it, and leave unwritten
// what no kernel reads (strides of dimensions that a tensor has not, padding):
// what lies there is of whichever calls came before, often an address, and
// another one in each recording. After this it is the same in all. The stack
// must have that much room. Cost: below a microsecond.
void ClearStack();

}  // namespace reprise::device

#endif  // REPRISE_ENGINE_DEVICE_CLEAR_STACK_H_
