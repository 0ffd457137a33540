// The ways in which random programs are run, and what is said of one that
// fails.
#include "tests/bindings/native/batch_twin_run.h"

namespace reprise::native {

RunOptions OptionsOf(uint32_t seed) {
  using Which = TableDevice::Which;
  RunOptions options{.seed = seed};
  switch (seed % 6) {
    case 0:
      break;
    case 1:
      options.patching = Patching::kExecUpdate;
      break;
    case 2:
      options.patching = Patching::kMeasured;
      break;
    case 3:
      options.tables = Which::kAll;
      break;
    case 4:
      options.patching = Patching::kMeasured;
      options.tables = Which::kEveryOther;
      break;
    case 5:
      options.patching = Patching::kExecUpdate;
      options.refuses_updates = seed % 12 == 5;
      options.tables = Which::kEveryOther;
      break;
  }
  const uint32_t round = seed / 6;
  constexpr uint32_t kPlans[] = {64, 2, 3};
  options.plans_per_stream = kPlans[round % 3];
  options.pool = round % 4 != 3;
  using Pace = sim::SimulatedStreams::Pace;
  constexpr Pace kPaces[] = {Pace::kAtRandom, Pace::kByHand, Pace::kAtRandom,
                             Pace::kAtOnce, Pace::kAtRandom};
  options.pace = kPaces[round % 5];
  return options;
}

std::string RunOptions::ToString() const {
  constexpr const char* kTables[] = {"no", "every other", "all"};
  constexpr const char* kPaces[] = {"at once", "by hand", "at random"};
  return std::string(reprise::ToString(patching)) +
         ", tables: " + kTables[static_cast<size_t>(tables)] + ", " +
         std::to_string(plans_per_stream) + " plans, " +
         (pool ? "a pool" : "no pool") + ", streams " +
         kPaces[static_cast<size_t>(pace)] +
         (refuses_updates ? ", updates refused" : "") +
         (fail_after < 0 ? std::string()
                         : ", call " + std::to_string(fail_after) + " fails");
}

std::string Explain(uint32_t seed, const Program& program,
                    const RunOptions& options) {
  const Program small = Shrink(program, [&](const Program& smaller) {
    return !RunBeside(smaller, options).failure.empty();
  });
  return "seed " + std::to_string(seed) + " (" + options.ToString() + ")\n" +
         RunBeside(small, options).failure + "\n" + small.ToString();
}

}  // namespace reprise::native
