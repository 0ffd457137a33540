// The device code that fills the tables of twins.

#ifndef REPRISE_KERNELS_TABLE_SOURCE_H_
#define REPRISE_KERNELS_TABLE_SOURCE_H_

#include <array>
#include <cstdint>

namespace reprise::kernels {

// Bytes that one launch can carry; the last is about the driver's limit for
// parameters (32 764 bytes since compute capability 7.0).
inline constexpr std::array<uint32_t, 8> kTableBytes = {
    256, 512, 1024, 2048, 4096, 8192, 16384, 32512};

// reprise_table::Write<N>(chunk of N bytes, table, vectors of 16 bytes):
// one block. reprise_table::Axpy is an ordinary small kernel, AxpyByTable what
// its twin would be, for measuring; with all parameters zero it does nothing.
inline constexpr char kTableSource[] = R"(
namespace reprise_table {
template <int kBytes>
struct Chunk {
  uint4 vectors[kBytes / 16];
};

template <int kBytes>
__global__ void __launch_bounds__(256)
    Write(const __grid_constant__ Chunk<kBytes> chunk, uint4* table,
          int vectors) {
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    table[i] = chunk.vectors[i];
  }
}

struct Arguments {
  float a;
  const float* x;
  float* y;
  int count;
};

__device__ void DoAxpy(const Arguments& given) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < given.count) given.y[i] += given.a * given.x[i];
}

__global__ void Axpy(float a, const float* x, float* y, int count) {
  DoAxpy({a, x, y, count});
}

__global__ void AxpyByTable(const Arguments* given) { DoAxpy(*given); }
}  // namespace reprise_table
)";

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_TABLE_SOURCE_H_
