// What the main of every benchmark does.

#ifndef REPRISE_PERF_RUN_H_
#define REPRISE_PERF_RUN_H_

namespace reprise::perf {

// Runs the benchmarks that the command line asks for, with NVRTC and CUPTI from
// where the build found them; the record's context has the GPU, the driver and
// the command line. Returns what main returns.
int RunBenchmarks(int argc, char** argv);

}  // namespace reprise::perf

#endif  // REPRISE_PERF_RUN_H_
