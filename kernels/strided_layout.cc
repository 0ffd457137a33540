#include "kernels/strided_layout.h"

namespace reprise::kernels {

int64_t Layout::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= sizes[i];
  return count;
}

int64_t Layout::span_bytes() const {
  int64_t last = 0;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return (last + 1) * element_bytes;
}

}  // namespace reprise::kernels
