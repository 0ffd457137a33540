// torch as the engine sees it: weak storage references, memory, generators.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_TORCH_FRONTEND_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_TORCH_FRONTEND_H_

#include <c10/core/StorageImpl.h>

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/trace/block.h"
#include "engine/trace/frontend.h"
#include "engine/trace/op.h"
#include "scheduler/runtime.h"

namespace reprise::bindings {

// A storage's token is the address of its StorageImpl. Every token that reaches
// a frontend of this binding must have been made here.
inline engine::StorageToken TokenOf(const c10::StorageImpl& storage) {
  return &storage;
}

// The address of a storage's first byte as it stands: asks nothing, so that no
// copy-on-write storage is materialised and none that forbids access throws.
inline uint64_t BaseOf(const c10::StorageImpl& storage) {
  auto& unchecked = const_cast<c10::StorageImpl&>(storage);
  return reinterpret_cast<uint64_t>(
      unchecked._mutable_data_ptr_no_checks().get());
}

// It releases memory that a result may have got from Reprise and from nobody
// else: a place in an arena, or pages of the host.
bool IsLent(engine::Block::Release release);

// Names the ops of the hooks' table.
using OpNames = std::string (*)(engine::OpId);

// Once, before the first frontend of a kind: kUnavailable, in one sentence,
// where torch or its allocator cannot serve it. Initialises CUDA for kCuda.
base::Status PrepareFrontends(scheduler::DeviceKind kind);

// The frontend of a stream, after a successful PrepareFrontends(key.kind).
// Threads: as engine::Frontend says. Single allocator, one process.
//
// On a GPU, memory comes from torch's caching allocator, for the session's
// stream, with the deleter that torch's own tensors carry, so that a tensor
// over it is one of torch's in every respect. A private pool makes every
// allocation on the session's stream, by any thread but for Reprise's own, come
// from fresh segments; tensors born there stay valid for as long as they live,
// and what they leave behind is given back to the device some recordings later,
// or when torch runs out of memory. Torch cannot give back other cached memory
// while a pool is open, so none is opened on a device that is nearly full.
std::unique_ptr<engine::Frontend> MakeFrontend(const scheduler::StreamKey& key,
                                               OpNames op_names);

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_TORCH_FRONTEND_H_
