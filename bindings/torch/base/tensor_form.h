// What is known of a tensor before a call.

#ifndef REPRISE_BINDINGS_TORCH_BASE_TENSOR_FORM_H_
#define REPRISE_BINDINGS_TORCH_BASE_TENSOR_FORM_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::bindings {

// Holds a tensor's address, and not its memory: what the program drops is gone.
using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// A tensor's form: what decides, of all that is known before a call, which
// calls a program goes on to make. One that is no ordinary tensor (sparse,
// nested, a wrapper) has neither sizes nor strides here.
struct TensorForm {
  uint64_t keys = 0;
  at::ScalarType dtype = at::kFloat;
  c10::Device device{c10::kCPU};
  bool requires_grad = false;
  bool leaf = true;            // no function of autograd's has made it
  uint32_t hooks = 0;          // that autograd runs for it
  int64_t storage_offset = 0;  // in elements
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {};

  static TensorForm Of(const at::Tensor& tensor);
  int64_t offset_bytes() const {
    return storage_offset * static_cast<int64_t>(c10::elementSize(dtype));
  }
  // All but the offset; and whether it has a gradient.
  bool Fits(const c10::TensorImpl& tensor, bool has_gradient) const;
  // The same but for hooks.
  bool FitsValue(const c10::TensorImpl& tensor) const;
  // A tensor of this form may be the `.data` of one of the other form.
  bool MayBeDataOf(const TensorForm& other) const;
  bool operator==(const TensorForm&) const = default;
};

// Has so many bytes on their way when they are looked at. What a call looks at
// has often left the caches since the last one.
inline void Prefetch(const void* begin, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto* const from = static_cast<const std::byte*>(begin);
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at);
}

// It has one, of forward-mode differentiation.
bool HasTangent(const c10::TensorImpl& tensor);

// Null: it has none.
const c10::TensorImpl* GradientOf(const c10::TensorImpl& tensor);

using Storages = std::span<const c10::StorageImpl* const>;

// A tensor from outside that Python may look at, as it was before a call.
struct WatchedTensor {
  WeakTensor tensor;
  TensorForm form;
  bool has_gradient = false;

  static WatchedTensor Of(const at::Tensor& tensor);
  // It is there, and as it was, in none of these storages (ascending). Its data
  // may be others.
  bool Holds(Storages elsewhere = {}) const;
};

// Many of them, asked before each call: what is compared lies in one row, and
// what it is compared with is on its way when its turn comes.
class WatchedTensors {
 public:
  void Add(const WatchedTensor& tensor);
  // All of them do.
  bool Hold(Storages elsewhere = {}) const;
  // It is one of them.
  bool Has(const c10::TensorImpl* tensor) const;

 private:
  struct Row {
    uint64_t keys = 0;
    const void* meta = nullptr;  // autograd's, then
    int64_t storage_offset = 0;
    uint32_t hooks = 0;
    uint32_t extents = 0;  // where they begin
    caffe2::TypeMeta dtype;
    c10::Device device{c10::kCPU};
    uint8_t rank = 0;
    bool requires_grad = false;
    bool leaf = true;
    bool has_gradient = false;
  };

  bool Holds(size_t index, Storages elsewhere) const;
  void PrefetchRow(size_t index) const;

  std::vector<const c10::TensorImpl*> all_;  // ascending
  std::vector<WeakTensor> tensors_;
  std::vector<Row> rows_;
  std::vector<int64_t> extents_;       // sizes and strides, one after the other
  std::vector<WatchedTensor> others_;  // that fit into no row
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_TENSOR_FORM_H_
