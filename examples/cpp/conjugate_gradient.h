// The solver of conjugate_gradient.cc: its kernels, its memory, and an
// iteration as launches of a batch.

#ifndef REPRISE_EXAMPLES_CPP_CONJUGATE_GRADIENT_H_
#define REPRISE_EXAMPLES_CPP_CONJUGATE_GRADIENT_H_

#include <reprise.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace conjugate_gradient {

using reprise::Buffer;
using reprise::In;
using reprise::InOut;
using reprise::Kernel;
using reprise::Out;
using reprise::ValueOrExit;

inline constexpr char kSource[] = R"(
// q = A p on a grid of side * side points with zeros around it.
extern "C" __global__ void laplacian(const double* p, double* q, int side) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= side * side) return;
  int column = i % side;
  double sum = 4 * p[i];
  if (column > 0) sum -= p[i - 1];
  if (column + 1 < side) sum -= p[i + 1];
  if (i >= side) sum -= p[i - side];
  if (i + side < side * side) sum -= p[i + side];
  q[i] = sum;
}
// *out = a . b by one block, always in the same order.
extern "C" __global__ void dot(const double* a, const double* b, double* out,
                               int count) {
  __shared__ double parts[256];
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += 256) sum += a[i] * b[i];
  parts[threadIdx.x] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *out = parts[0];
}
// x += (rr / pq) p, or with the sign turned for the residual.
extern "C" __global__ void step(double* x, const double* p, const double* rr,
                                const double* pq, double sign, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += sign * (*rr / *pq) * p[i];
}
// p = r + (new / old) p
extern "C" __global__ void turn(double* p, const double* r, const double* now,
                                const double* before, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) p[i] = r[i] + (*now / *before) * p[i];
}
)";

struct Solver {
  using Laplacian = void(const double*, double*, int);
  using Dot = void(const double*, const double*, double*, int);
  using Step = void(double*, const double*, const double*, const double*,
                    double, int);
  using Turn = void(double*, const double*, const double*, const double*, int);

  Solver(const reprise::RuntimeOptions& options, int grid_side)
      : runtime(ValueOrExit(reprise::Runtime::Create(options))),
        side(grid_side) {
    for (Buffer<double>* vector : {&x, &r, &p, &q, &b}) {
      *vector = ValueOrExit(runtime.Allocate<double>(count));
    }
    // rr of this iteration and of the next one take turns.
    for (Buffer<double>* scalar : {&rr[0], &rr[1], &pq}) {
      *scalar = ValueOrExit(runtime.Allocate<double>(1));
    }
    std::vector<double> values(count);
    for (int i = 0; i < count; ++i) values[i] = std::sin(0.01 * (i + 1));
    ValueOrExit(stream.CopyToDevice(b.data(), values.data(), values.size()));
  }

  void Begin() {
    auto batch = stream.BeginBatch();
    batch.Fill(Out(x), 0.0);
    batch.Copy(Out(r), In(b));
    batch.Copy(Out(p), In(b));
    batch.Launch(dot, kOne, In(r), In(r), Out(rr[0]), count);
    ValueOrExit(batch.Submit());
  }

  // Iteration `k`: which of the two scalars is the new one changes every time.
  void Add(reprise::Batch& batch, int k) {
    const Buffer<double>& before = rr[k % 2];
    const Buffer<double>& now = rr[(k + 1) % 2];
    batch.Launch(laplacian, wide, In(p), Out(q), side);
    batch.Launch(dot, kOne, In(p), In(q), Out(pq), count);
    batch.Launch(step, wide, InOut(x), In(p), In(before), In(pq), 1.0, count);
    batch.Launch(step, wide, InOut(r), In(q), In(before), In(pq), -1.0, count);
    batch.Launch(dot, kOne, In(r), In(r), Out(now), count);
    batch.Launch(turn, wide, InOut(p), In(r), In(now), In(before), count);
  }

  double Residual(int k) {
    double value = 0;
    ValueOrExit(stream.CopyToHost(&value, rr[k % 2].data(), 1));
    return std::sqrt(value);
  }

  std::vector<double> Solution() {
    std::vector<double> values(count);
    ValueOrExit(stream.CopyToHost(values.data(), x.data(), values.size()));
    return values;
  }

  template <typename Signature>
  Kernel<Signature> Compile(const char* name) {
    auto kernel = ValueOrExit(
        runtime.CompileKernel<Signature>({.source = kSource, .name = name}));
    ValueOrExit(kernel.Wait());
    return kernel;
  }

  reprise::Runtime runtime;
  reprise::Stream stream = ValueOrExit(runtime.CreateStream());
  const int side;
  const int count = side * side;
  const reprise::LaunchConfig wide{
      .grid = {static_cast<uint32_t>((count + 255) / 256)}, .block = {256}};
  static constexpr reprise::LaunchConfig kOne{.grid = {1}, .block = {256}};
  Kernel<Laplacian> laplacian = Compile<Laplacian>("laplacian");
  Kernel<Dot> dot = Compile<Dot>("dot");
  Kernel<Step> step = Compile<Step>("step");
  Kernel<Turn> turn = Compile<Turn>("turn");
  Buffer<double> x, r, p, q, b, pq;
  Buffer<double> rr[2];
};

}  // namespace conjugate_gradient

#endif  // REPRISE_EXAMPLES_CPP_CONJUGATE_GRADIENT_H_
