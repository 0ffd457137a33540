// Where a factory goes: the keys that torch's own kernels for BackendSelect
// compute (torchgen, ComputeBackendSelect).

#ifndef REPRISE_BINDINGS_TORCH_HOOK_FACTORY_H_
#define REPRISE_BINDINGS_TORCH_HOOK_FACTORY_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/DispatchKeyExtractor.h>
#include <c10/core/TensorOptions.h>

#include <optional>
#include <type_traits>

namespace reprise::bindings {

// Gathers from a factory's arguments, by their types, what its keys depend on.
class FactoryArguments {
 public:
  void Add(const std::optional<at::ScalarType>& dtype) { dtype_ = dtype; }
  void Add(const std::optional<at::Layout>& layout) { layout_ = layout; }
  void Add(const std::optional<at::Device>& device) { device_ = device; }
  void Add(const at::Tensor& tensor) { tensors_(tensor); }
  template <typename T>
  void Add(const T&) {
    static_assert(!std::is_same_v<T, at::TensorList> &&
                      !std::is_same_v<T, std::optional<at::Tensor>>,
                  "torch's factories take no lists and no optional tensors");
  }

  c10::DispatchKey key() const {
    return c10::computeDispatchKey(dtype_, layout_, device_);
  }
  c10::DispatchKeySet tensor_keys() const { return tensors_.ts; }

 private:
  std::optional<at::ScalarType> dtype_;
  std::optional<at::Layout> layout_;
  std::optional<at::Device> device_;
  c10::detail::MultiDispatchKeySet tensors_;
};

// Without tensors the options alone decide, whatever the thread's state is.
template <typename... A>
c10::DispatchKeySet FactoryKeys(const A&... args) {
  FactoryArguments arguments;
  (arguments.Add(args), ...);
  const c10::DispatchKeySet options(arguments.key());
  if constexpr ((std::is_same_v<A, at::Tensor> || ...)) {
    return c10::impl::computeDispatchKeySet(
        options | arguments.tensor_keys(),
        c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                            c10::DispatchKey::BackendSelect));
  } else {
    return options;
  }
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_FACTORY_H_
