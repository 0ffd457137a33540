#include "kernels/byte_runs.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace reprise::kernels {

int64_t ByteRuns::runs() const {
  if (run_bytes == 0) return 0;
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= sizes[i];
  return count;
}

ByteRuns ByteRunsOf(const Layout& layout) {
  struct Dimension {
    int64_t size;
    int64_t stride_bytes;
  };
  std::array<Dimension, kMaxRank> dimensions;
  int rank = 0;
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.sizes[i] == 0) return {};
    if (layout.sizes[i] == 1 || layout.strides[i] == 0) continue;
    dimensions[rank++] = {layout.sizes[i],
                          layout.strides[i] * layout.element_bytes};
  }
  std::sort(dimensions.begin(), dimensions.begin() + rank,
            [](const Dimension& a, const Dimension& b) {
              return std::abs(a.stride_bytes) < std::abs(b.stride_bytes);
            });
  ByteRuns runs;
  runs.run_bytes = layout.element_bytes;
  for (int i = 0; i < rank; ++i) {
    const auto [size, stride_bytes] = dimensions[i];
    if (runs.rank == 0 && stride_bytes == runs.run_bytes) {
      runs.run_bytes *= size;
      continue;
    }
    if (runs.rank > 0) {
      // The next dimension may just go on where the last one ends.
      const int last = runs.rank - 1;
      if (stride_bytes == runs.sizes[last] * runs.strides_bytes[last]) {
        runs.sizes[last] *= size;
        continue;
      }
    }
    runs.sizes[runs.rank] = size;
    runs.strides_bytes[runs.rank] = stride_bytes;
    ++runs.rank;
  }
  return runs;
}

bool IsDense(const Layout& layout) {
  const ByteRuns runs = ByteRunsOf(layout);
  return runs.rank == 0 &&
         runs.run_bytes == layout.elements() * layout.element_bytes;
}

}  // namespace reprise::kernels
