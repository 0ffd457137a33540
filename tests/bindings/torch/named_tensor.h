// A tensor whose dimension has a name. Newer versions of torch have none.

#ifndef REPRISE_TESTS_BINDINGS_TORCH_NAMED_TENSOR_H_
#define REPRISE_TESTS_BINDINGS_TORCH_NAMED_TENSOR_H_

#include <ATen/ATen.h>
#if __has_include(<ATen/NamedTensor.h>)
#include <ATen/NamedTensor.h>
#define REPRISE_TORCH_HAS_NAMES
#endif

#include <memory>
#include <optional>
#include <vector>

namespace reprise::bindings {

inline std::optional<at::Tensor> NamedTensor() {
#ifdef REPRISE_TORCH_HAS_NAMES
  at::Tensor named = at::zeros({2});
  named.unsafeGetTensorImpl()->set_named_tensor_meta(
      std::make_unique<at::NamedTensorMeta>(
          at::NamedTensorMeta::HasNonWildcard,
          std::vector{at::Dimname::fromSymbol(at::Symbol::dimname("n"))}));
  return named;
#else
  return std::nullopt;
#endif
}

}  // namespace reprise::bindings

#endif  // REPRISE_TESTS_BINDINGS_TORCH_NAMED_TENSOR_H_
