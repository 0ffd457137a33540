// What differs between the versions of torch that this source compiles
// with, 2.11 to 2.15. It is found by the form of torch's own declarations,
// never by a number, and nowhere else.

#ifndef REPRISE_BINDINGS_TORCH_BASE_TORCH_VERSIONS_H_
#define REPRISE_BINDINGS_TORCH_BASE_TORCH_VERSIONS_H_

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#if __has_include(<ATen/NodeCreationHooks.h>)
#include <ATen/NodeCreationHooks.h>
#define REPRISE_TORCH_HAS_NODE_HOOKS
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace reprise::bindings {

// Owns a node of autograd's graph: a std::shared_ptr or, in newer versions, a
// c10::intrusive_ptr.
using NodePtr = decltype(torch::autograd::Edge::function);

// A node of class T, made as torch makes its own.
template <typename T, typename Pointer = NodePtr, typename... Args>
Pointer MakeNode(Args&&... args) {
  if constexpr (std::is_same_v<Pointer,
                               std::shared_ptr<torch::autograd::Node>>) {
    // Torch's own deleter keeps long chains of nodes from exhausting the stack.
    return Pointer(new T(std::forward<Args>(args)...),
                   [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
  }
}

// How many hooks of this thread see each node of autograd that is made
// (torch.autograd.graph.node_creation_hook, which older versions lack).
inline size_t NodeHooks() {
#ifdef REPRISE_TORCH_HAS_NODE_HOOKS
  return at::impl::NodeCreationHooks::get_tls_state().stack.size();
#else
  return 0;
#endif
}

// --- Flags of at::Context that choose kernels; 0 where there is none such ---

template <typename Context>
bool UserEnabledFA4SDP(const Context& context) {
  if constexpr (requires { context.userEnabledFA4SDP(); }) {
    return context.userEnabledFA4SDP();
  }
  return false;
}

template <typename Context>
bool PreferCublasltGroupedGemm(const Context& context) {
  if constexpr (requires { context.preferCublasltGroupedGemm(); }) {
    return context.preferCublasltGroupedGemm();
  }
  return false;
}

template <typename Context>
uint64_t CudnnDepthwiseKernel(const Context& context) {
  if constexpr (requires { context.cudnnDepthwiseKernel(); }) {
    return static_cast<uint64_t>(context.cudnnDepthwiseKernel());
  }
  return 0;
}

// Kernels that were compiled ahead of time for torch's own Python kernels:
// whether they are chosen, and whether also where nothing else would be.
template <typename Context>
uint64_t NativeAot(const Context& context) {
  if constexpr (requires { context.allowNativeAot(); }) {
    return context.allowNativeAot() +
           2 * static_cast<uint64_t>(context.maskUnconditionalNativeAot());
  }
  return 0;
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_TORCH_VERSIONS_H_
