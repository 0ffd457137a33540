// A random generator of torch's, to be put back where it was.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_KEPT_GENERATOR_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_KEPT_GENERATOR_H_

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "engine/trace/generator.h"

namespace reprise::bindings {

// Where a generator was when this was made. Keeps the generator. It has not
// been seeded since: of a GPU's, only the offset is put back.
class KeptGenerator final : public engine::KeptGenerator {
 public:
  // Of a kind that this knows: torch's own, of the host or of a CUDA device.
  static bool MayKeep(const at::Generator& generator);

  // MayKeep holds. 0.1 us.
  explicit KeptGenerator(at::Generator generator);

  void PutBack() const override;

 private:
  at::Generator generator_;
  uint64_t offset_ = 0;                // of a GPU's
  std::optional<at::mt19937> engine_;  // of the host's, and samples drawn ahead
  std::optional<float> float_sample_;
  std::optional<double> double_sample_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_KEPT_GENERATOR_H_
