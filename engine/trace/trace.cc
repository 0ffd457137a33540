#include "engine/trace/trace.h"

#include <algorithm>
#include <vector>

namespace reprise::engine {
namespace {

// What an allocation takes beside what was asked for.
constexpr size_t kAllocation = 16;

// A storage without its memory, as frontends have them.
constexpr size_t kStorage = 128;

// A call that was boxed: itself, its arguments, tensors of wrapped numbers, and
// a layout each operand. The words tell how many attributes there are. Together
// they come within a tenth of what torch's calls were measured to take.
constexpr size_t kCall = 768;
constexpr size_t kCallOperand = 256;
constexpr size_t kCallWord = 32;

template <typename T>
size_t Elements(const std::vector<T>& vector) {
  return vector.capacity() == 0 ? 0
                                : kAllocation + vector.capacity() * sizeof(T);
}

size_t HostBytes(const ResultSpec& result) {
  const size_t host = result.host == nullptr ? 0 : 4 * kAllocation;
  return Elements(result.sizes) + Elements(result.strides) + host;
}

size_t HostBytes(const device::Launch& launch) {
  const size_t behind = launch.behind ? Elements(*launch.behind) : 0;
  return Elements(launch.image) + Elements(launch.attributes) + behind;
}

size_t HostBytes(const TracedOp& op) {
  size_t bytes = Elements(op.words) + Elements(op.operands) +
                 Elements(op.written) + Elements(op.results) +
                 Elements(op.slots) + engine::HostBytes(op.launches) +
                 Elements(op.temporaries);
  for (const ResultSpec& result : op.results) bytes += HostBytes(result);
  if (op.call == nullptr) return bytes;
  return bytes + kCall + kCallOperand * op.operands.size() +
         kCallWord * op.words.size();
}

}  // namespace

const kernels::Layout& TracedOp::LayoutOf(size_t operand) const {
  size_t before = 0;
  for (size_t i = 0; i < operand; ++i) before += operands[i].written ? 1 : 0;
  return written[before];
}

bool TracedOp::Writes(ValueId value) const {
  return std::ranges::any_of(results,
                             [value](const ResultSpec& result) {
                               return result.IsValue() && result.value == value;
                             }) ||
         std::ranges::any_of(operands, [value](const ValueRef& operand) {
           return operand.written && operand.value == value;
         });
}

size_t HostBytes(const std::vector<device::Launch>& launches) {
  size_t bytes = Elements(launches);
  for (const device::Launch& launch : launches) bytes += HostBytes(launch);
  return bytes;
}

size_t HostBytes(const Trace& trace) {
  size_t bytes = sizeof(Trace) + kAllocation + Elements(trace.ops) +
                 Elements(trace.values) + kStorage * trace.values.size();
  for (const TracedOp& op : trace.ops) bytes += HostBytes(op);
  return bytes;
}

}  // namespace reprise::engine
