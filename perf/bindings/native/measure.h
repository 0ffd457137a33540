// What the benchmarks of the C++ API share: a small kernel, errors that end
// them, times of single calls as percentiles.

#ifndef REPRISE_PERF_BINDINGS_NATIVE_MEASURE_H_
#define REPRISE_PERF_BINDINGS_NATIVE_MEASURE_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/plan.h"
#include "engine/base/status.h"

namespace reprise::perf {

// A kernel that is over before the next one is launched.
inline constexpr char kAxpySource[] = R"(
extern "C" __global__ void axpy(float a, const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}
)";
using Axpy = void(float, const float*, float*, int);

// How a plan gets its arguments, and why.
inline std::string Describe(const PlanReport& plan) {
  return std::string(ToString(plan.patching)) + ": " + plan.why + plan.why_not;
}

// A benchmark that cannot go on ends the program, with a sentence on stderr.
[[noreturn]] inline void Stop(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}
template <typename T>
T Must(base::Result<T> result) {
  if (!result) Stop(result.error().message());
  return *std::move(result);
}
inline void Must(const base::Status& status) {
  if (!status) Stop(status.error().message());
}

// Microseconds that `call` takes on this thread's clock of the wall.
template <typename F>
double MicrosecondsOf(const F& call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  call();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin)
      .count();
}

// Single times, in microseconds. Single-thread at a time.
class Samples {
 public:
  void Add(double us) { us_.push_back(us); }
  void Add(const Samples& more) {
    us_.insert(us_.end(), more.us_.begin(), more.us_.end());
  }
  template <typename F>
  void Time(const F& call) {
    Add(MicrosecondsOf(call));
  }

  // The time that a `share` of the samples does not exceed; 0 of none.
  double At(double share) {
    if (us_.empty()) return 0;
    const auto rank =
        static_cast<size_t>(share * static_cast<double>(us_.size() - 1) + 0.5);
    std::nth_element(us_.begin(), us_.begin() + static_cast<ptrdiff_t>(rank),
                     us_.end());
    return us_[rank];
  }
  double median() { return At(0.5); }
  size_t size() const { return us_.size(); }

  // As counters `<name>_p50_us` and so on; p99.9 where there are enough.
  void Report(benchmark::State& state, const std::string& name) {
    state.counters[name + "_p50_us"] = median();
    state.counters[name + "_p99_us"] = At(0.99);
    if (us_.size() < 10'000) return;
    state.counters[name + "_p999_us"] = At(0.999);
    state.counters[name + "_max_us"] = At(1);
  }

 private:
  std::vector<double> us_;
};

}  // namespace reprise::perf

#endif  // REPRISE_PERF_BINDINGS_NATIVE_MEASURE_H_
