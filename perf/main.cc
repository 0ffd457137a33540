// The main of benchmarks that have none of their own.

#include "perf/run.h"

int main(int argc, char** argv) {
  return reprise::perf::RunBenchmarks(argc, argv);
}
