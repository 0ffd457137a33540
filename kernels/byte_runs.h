// A strided tensor as runs of bytes.

#ifndef REPRISE_KERNELS_BYTE_RUNS_H_
#define REPRISE_KERNELS_BYTE_RUNS_H_

#include <array>
#include <cstdint>

#include "kernels/strided_layout.h"

namespace reprise::kernels {

// The same bytes as a layout's elements, in as few and as long runs as its
// strides allow: one run of `run_bytes` for every index below `sizes`, at the
// sum of index times stride. Dimensions of size one and expanded dimensions
// (stride 0) are gone, so no byte is named more often than the strides say.
// Order is lost. Nothing at all where `run_bytes` is 0. Thread-compatible
// value.
struct ByteRuns {
  int64_t run_bytes = 0;
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> strides_bytes{};  // smallest first

  int64_t runs() const;
};

ByteRuns ByteRunsOf(const Layout& layout);

// The elements lie side by side, in any order, without gaps and none twice.
bool IsDense(const Layout& layout);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_BYTE_RUNS_H_
