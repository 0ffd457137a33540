// Solves A x = b for the five-point Laplacian on a square grid by conjugate
// gradients (Hestenes and Stiefel, 1952), whose iteration is six small kernels:
// what a GPU finishes sooner than a host can launch it.
//
//   conjugate_gradient [side] [iterations]
//
// The scalars of the iteration stay on the device; the residual is looked at
// every 32 iterations. Everything is done in four ways and timed side by side:
// plain launches, batches of an iteration, batches of 32, and a plan that is
// prepared once.

#include "conjugate_gradient.h"

#include <reprise.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

using conjugate_gradient::Solver;
using reprise::ValueOrExit;

constexpr int kCheckEvery = 32;

struct Outcome {
  double seconds = 0;
  double residual = 0;
  std::vector<double> solution;
};

// `iterate(k)` enqueues iteration k.
Outcome Run(Solver& solver, int iterations,
            const std::function<void(int)>& iterate) {
  solver.Begin();
  ValueOrExit(solver.stream.Synchronize());
  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < iterations; ++k) {
    iterate(k);
    if ((k + 1) % kCheckEvery == 0) outcome.residual = solver.Residual(k + 1);
  }
  ValueOrExit(solver.stream.Synchronize());
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  outcome.solution = solver.Solution();
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  const int side = argc > 1 ? std::atoi(argv[1]) : 32;
  const int iterations = argc > 2 ? std::atoi(argv[2]) : 512;
  if (side < 2 || iterations < kCheckEvery) {
    std::fprintf(stderr,
                 "usage: conjugate_gradient [side >= 2] [iterations >= %d]\n",
                 kCheckEvery);
    return 2;
  }
  reprise::RuntimeOptions plainly;
  plainly.build_after = ~0u;  // never a graph
  Solver plain(plainly, side);
  Solver batched({}, side);
  Solver prepared({}, side);

  // An even number of iterations in one batch: then no argument changes.
  const auto submit = [](Solver& solver, int of) {
    return [&solver, of](int k) {
      if (k % of != 0) return;
      auto batch = solver.stream.BeginBatch();
      for (int i = 0; i < of; ++i) solver.Add(batch, k + i);
      ValueOrExit(batch.Submit());
    };
  };
  auto batch = prepared.stream.BeginBatch();
  for (int i = 0; i < kCheckEvery; ++i) prepared.Add(batch, i);
  auto plan = ValueOrExit(batch.Prepare());
  const std::pair<const char*, std::function<Outcome()>> ways[] = {
      {"plain launches",
       [&] { return Run(plain, iterations, submit(plain, 1)); }},
      {"batch an iteration, arguments change",
       [&] { return Run(batched, iterations, submit(batched, 1)); }},
      {"batch between checks",
       [&] { return Run(batched, iterations, submit(batched, kCheckEvery)); }},
      {"prepared plan between checks",
       [&] {
         return Run(prepared, iterations, [&](int k) {
           if (k % kCheckEvery == 0) ValueOrExit(plan.Launch());
         });
       }},
  };
  std::vector<double> expected;
  std::vector<std::vector<double>> times(std::size(ways));
  for (int round = 0; round < 8; ++round) {
    for (size_t w = 0; w < std::size(ways); ++w) {
      const Outcome outcome = ways[w].second();
      if (expected.empty()) expected = outcome.solution;
      if (std::memcmp(expected.data(), outcome.solution.data(),
                      expected.size() * sizeof(double)) != 0) {
        std::fprintf(stderr, "%s: another solution\n", ways[w].first);
        return 1;
      }
      batched.stream.WaitForBuilds();
      if (round > 1) times[w].push_back(outcome.seconds);
      if (round == 0 && w == 0) {
        std::printf("%d x %d grid, %d iterations, residual %.3g\n", side, side,
                    iterations, outcome.residual);
      }
    }
  }
  for (size_t w = 0; w < std::size(ways); ++w) {
    std::sort(times[w].begin(), times[w].end());
    std::sort(times[0].begin(), times[0].end());
    const double median = times[w][times[w].size() / 2];
    std::printf("%-38s %8.3f ms  %6.2f us an iteration  %5.2fx\n",
                ways[w].first, 1e3 * median, 1e6 * median / iterations,
                times[0][times[0].size() / 2] / median);
  }
  return 0;
}
