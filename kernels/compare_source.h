// The device code of DeviceCompare.

#ifndef REPRISE_KERNELS_COMPARE_SOURCE_H_
#define REPRISE_KERNELS_COMPARE_SOURCE_H_

namespace reprise::kernels {

// Dimensions of the strided kernels: those of a layout and the run's own.
// CompareDims in the source below has the same layout.
inline constexpr int kCompareMaxRank = 13;

// Of one launch of copy_ranges. CopyRanges below has the same layout.
inline constexpr int kMostRanges = 128;

// compare_dense: `vectors` times 16 bytes, then `tail_bytes` single ones.
// compare_strided_N: `count` units of N bytes at the offsets that `dims` spans.
// All raise the flag to `raised` if it is 0 and anything differs.
// copy_strided_N: copies such units.
// copy_ranges: each block copies one range.
// close_TYPE: of `count` elements, as DeviceCompare::EnqueueClose says. For one
// block.
inline constexpr char kCompareSource[] = R"(
using Count = unsigned long long;

struct CompareDims {
  int rank;
  long long sizes[13];
  long long strides_bytes[13];
};

__device__ bool Differ(uint4 a, uint4 b) {
  return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
}
template <typename T>
__device__ bool Differ(T a, T b) {
  return a != b;
}

__device__ Count FirstIndex() {
  return Count(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ Count IndexStep() { return Count(gridDim.x) * blockDim.x; }

extern "C" __global__ void compare_dense(const char* left, const char* right,
                                         Count vectors, Count tail_bytes,
                                         unsigned* flag, unsigned raised) {
  const uint4* left_vectors = reinterpret_cast<const uint4*>(left);
  const uint4* right_vectors = reinterpret_cast<const uint4*>(right);
  bool differ = false;
  for (Count i = FirstIndex(); i < vectors; i += IndexStep()) {
    differ |= Differ(left_vectors[i], right_vectors[i]);
  }
  if (FirstIndex() < tail_bytes) {
    const Count i = vectors * sizeof(uint4) + FirstIndex();
    differ |= left[i] != right[i];
  }
  if (differ) atomicCAS(flag, 0u, raised);
}

__device__ long long OffsetOf(Count unit, const CompareDims& dims) {
  long long offset = 0;
  for (int d = 0; d < dims.rank; ++d) {
    const Count size = dims.sizes[d];
    const Count next = unit / size;
    offset += (long long)(unit - next * size) * dims.strides_bytes[d];
    unit = next;
  }
  return offset;
}

template <typename T>
__device__ void CompareStrided(const char* left, const char* right,
                               const CompareDims& dims, Count count,
                               unsigned* flag, unsigned raised) {
  bool differ = false;
  for (Count i = FirstIndex(); i < count; i += IndexStep()) {
    const long long offset = OffsetOf(i, dims);
    differ |= Differ(*reinterpret_cast<const T*>(left + offset),
                     *reinterpret_cast<const T*>(right + offset));
  }
  if (differ) atomicCAS(flag, 0u, raised);
}

template <typename T>
__device__ void CopyStrided(char* to, const char* from,
                            const CompareDims& dims, Count count) {
  for (Count i = FirstIndex(); i < count; i += IndexStep()) {
    const long long offset = OffsetOf(i, dims);
    *reinterpret_cast<T*>(to + offset) =
        *reinterpret_cast<const T*>(from + offset);
  }
}

#define STRIDED(bytes, type)                                              \
  extern "C" __global__ void compare_strided_##bytes(                     \
      const char* left, const char* right,                                \
      const __grid_constant__ CompareDims dims, Count count,              \
      unsigned* flag, unsigned raised) {                                  \
    CompareStrided<type>(left, right, dims, count, flag, raised);         \
  }                                                                       \
  extern "C" __global__ void copy_strided_##bytes(                        \
      char* to, const char* from,                                         \
      const __grid_constant__ CompareDims dims, Count count) {            \
    CopyStrided<type>(to, from, dims, count);                             \
  }
STRIDED(1, unsigned char)
STRIDED(2, unsigned short)
STRIDED(4, unsigned)
STRIDED(8, unsigned long long)
STRIDED(16, uint4)

struct CopyRanges {
  struct Range {
    char* to;
    const char* from;
    Count bytes;
  };
  Range ranges[128];
};

template <typename T>
__device__ void CopyRange(const CopyRanges::Range& range) {
  T* to = reinterpret_cast<T*>(range.to);
  const T* from = reinterpret_cast<const T*>(range.from);
  for (Count i = threadIdx.x; i < range.bytes / sizeof(T); i += blockDim.x) {
    to[i] = from[i];
  }
}

extern "C" __global__ void copy_ranges(
    const __grid_constant__ CopyRanges all) {
  const CopyRanges::Range& range = all.ranges[blockIdx.x];
  const Count bits = reinterpret_cast<Count>(range.to) |
                     reinterpret_cast<Count>(range.from) | range.bytes;
  if (bits % sizeof(uint4) == 0) {
    CopyRange<uint4>(range);
  } else if (bits % sizeof(unsigned) == 0) {
    CopyRange<unsigned>(range);
  } else {
    CopyRange<unsigned char>(range);
  }
}

struct Half {
  using Number = float;
  unsigned short bits;
  __device__ Number Value() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
struct BFloat {
  using Number = float;
  unsigned short bits;
  __device__ Number Value() const {
    return __uint_as_float(unsigned(bits) << 16);
  }
};
struct Float {
  using Number = float;
  float number;
  __device__ Number Value() const { return number; }
};
struct Double {
  using Number = double;
  double number;
  __device__ Number Value() const { return number; }
};

template <typename T>
__device__ bool Finite(T value) { return value - value == T(0); }
template <typename T>
__device__ T Magnitude(T value) { return value < T(0) ? -value : value; }
template <typename T>
__device__ bool Close(T left, T right, T most) {
  if (!Finite(left) || !Finite(right)) {
    return left == right || (left != left && right != right);
  }
  return Magnitude(left - right) <= most;
}

// The largest `value(i)` that is finite, told to all threads of the block.
template <typename Number, typename Value>
__device__ Number Largest(Count count, Value value) {
  __shared__ Number largest[1024];
  Number own = 0;
  for (Count i = threadIdx.x; i < count; i += blockDim.x) {
    const Number next = Magnitude(value(i));
    if (Finite(next) && next > own) own = next;
  }
  __syncthreads();
  largest[threadIdx.x] = own;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    const Number other = largest[threadIdx.x + half];
    if (other > largest[threadIdx.x]) largest[threadIdx.x] = other;
  }
  __syncthreads();
  return largest[0];
}

template <typename Element>
__device__ void CompareClose(const char* left, const char* right,
                             const char* other, const CompareDims& dims,
                             Count count, double share, double rounding,
                             double spreads, unsigned* flag, unsigned raised) {
  using Number = typename Element::Number;
  const auto at = [&dims](const char* base, Count i) {
    return reinterpret_cast<const Element*>(base + OffsetOf(i, dims))->Value();
  };
  const Number largest =
      Largest<Number>(count, [&](Count i) { return at(left, i); });
  Number most = Number(share * largest);
  if (other != nullptr) {
    const Number spread = Largest<Number>(
        count, [&](Count i) { return at(right, i) - at(other, i); });
    const double least = rounding * largest;
    const Number apart = Number(spreads * (spread > least ? spread : least));
    if (apart < most) most = apart;
  }
  bool differ = false;
  for (Count i = threadIdx.x; i < count; i += blockDim.x) {
    differ |= !Close(at(left, i), at(right, i), most);
  }
  if (differ) atomicCAS(flag, 0u, raised);
}

#define CLOSE(name, type)                                                    \
  extern "C" __global__ void __launch_bounds__(1024) close_##name(           \
      const char* left, const char* right, const char* other,                \
      const __grid_constant__ CompareDims dims, Count count, double share,   \
      double rounding, double spreads, unsigned* flag, unsigned raised) {    \
    CompareClose<type>(left, right, other, dims, count, share, rounding,     \
                       spreads, flag, raised);                               \
  }
CLOSE(float16, Half)
CLOSE(bfloat16, BFloat)
CLOSE(float32, Float)
CLOSE(float64, Double)
)";

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_COMPARE_SOURCE_H_
