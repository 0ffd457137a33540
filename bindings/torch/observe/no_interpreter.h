// What is an interpreter to torch, and none of Python.

#ifndef REPRISE_BINDINGS_TORCH_OBSERVE_NO_INTERPRETER_H_
#define REPRISE_BINDINGS_TORCH_OBSERVE_NO_INTERPRETER_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::bindings {

// Raises an error for all that torch asks of it but its name: a class that
// answers some questions overrides those. Any thread.
class NoInterpreter : public c10::impl::PyInterpreterVTable {
 public:
  // clang-format off
  void incref(PyObject*) const override { Never(); }
  void decref(PyObject*) const override { Never(); }
  bool try_incref(const c10::impl::PyObjectSlot&) const override { Never(); }
  size_t refcnt(PyObject*) const override { Never(); }
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl*) const override { Never(); }
  void dispatch(const c10::OperatorHandle&, torch::jit::Stack*) const override { Never(); }
  void reportErrorCallback(PyObject*, c10::DispatchKey) const override { Never(); }
  void python_op_registration_trampoline(const c10::OperatorHandle&, c10::DispatchKey, c10::DispatchKeySet, torch::jit::Stack*, bool, bool) const override { Never(); }
  void throw_abstract_impl_not_imported_error(std::string, const char*, const char*) const override { Never(); }
  void python_dispatcher(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const override { Never(); }
  bool is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const override { Never(); }
  c10::SymBool sym_is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const override { Never(); }
  bool is_strides_like(const c10::TensorImpl*, at::MemoryFormat) const override { Never(); }
  bool is_non_overlapping_and_dense(const c10::TensorImpl*) const override { Never(); }
  c10::Device device(const c10::TensorImpl*) const override { Never(); }
  int64_t dim(const c10::TensorImpl*) const override { Never(); }
  c10::IntArrayRef strides(const c10::TensorImpl*) const override { Never(); }
  c10::IntArrayRef sizes(const c10::TensorImpl*) const override { Never(); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl*) const override { Never(); }
  c10::Layout layout(const c10::TensorImpl*) const override { Never(); }
  int64_t numel(const c10::TensorImpl*) const override { Never(); }
  c10::SymInt sym_numel(const c10::TensorImpl*) const override { Never(); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl*) const override { Never(); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl*) const override { Never(); }
  void reset_backward_hooks(const c10::TensorImpl*) const override { Never(); }
  void trace_gpu_event_creation(c10::DeviceType, uintptr_t) const override { Never(); }
  void trace_gpu_event_deletion(c10::DeviceType, uintptr_t) const override { Never(); }
  void trace_gpu_event_record(c10::DeviceType, uintptr_t, uintptr_t) const override { Never(); }
  void trace_gpu_event_wait(c10::DeviceType, uintptr_t, uintptr_t) const override { Never(); }
  void trace_gpu_memory_allocation(c10::DeviceType, uintptr_t) const override { Never(); }
  void trace_gpu_memory_deallocation(c10::DeviceType, uintptr_t) const override { Never(); }
  void trace_gpu_stream_creation(c10::DeviceType, uintptr_t) const override { Never(); }
  void trace_gpu_device_synchronization(c10::DeviceType) const override { Never(); }
  void trace_gpu_stream_synchronization(c10::DeviceType, uintptr_t) const override { Never(); }
  void trace_gpu_event_synchronization(c10::DeviceType, uintptr_t) const override { Never(); }
  // clang-format on

 private:
  [[noreturn]] static void Never() {
    TORCH_CHECK(false, "this is no interpreter of Python");
  }
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_OBSERVE_NO_INTERPRETER_H_
