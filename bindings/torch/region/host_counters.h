// Numbers that Python reads from tensors of the host.

#ifndef REPRISE_BINDINGS_TORCH_REGION_HOST_COUNTERS_H_
#define REPRISE_BINDINGS_TORCH_REGION_HOST_COUNTERS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// While calls are written down: knows what they have done to tensors of the
// host with one floating-point number, such as an optimizer's steps. Such a
// number may be read behind calls that change something, because what will be
// read is known before the first call: what the tensor holds then, and what
// calls add to it. Borrows all that it is made of. One thread at a time.
class HostCounters {
 public:
  HostCounters(const TapeRecord& record, const TapeNames& names)
      : record_(record), names_(names) {}

  // A call is about to write the tensors of its argument `index`. When its
  // arguments are in the record.
  void NoteWrite(size_t call, std::span<const c10::IValue> arguments,
                 size_t index);
  // What a call reads that has this argument. Nothing: no more than its value
  // is known. When the argument is in the record.
  std::optional<NumberRead> Find(const at::Tensor& tensor, int32_t reg) const;

  // It holds one floating-point number, in memory of the host.
  static bool IsCounter(const c10::TensorImpl& tensor);
  static bool IsHeldBy(const at::Tensor& tensor) {
    return IsCounter(*tensor.unsafeGetTensorImpl());
  }
  // What it holds.
  static double ValueOf(const c10::TensorImpl& counter);
  // What will be read of it, by what it holds before the first call.
  static double ValueOf(const NumberRead& read, const c10::TensorImpl& counter);
  static double ValueOf(const NumberRead& read, double before,
                        caffe2::TypeMeta type);

 private:
  struct Written {
    std::vector<NumberRead::Added> added;
    bool otherwise = false;  // by a call that does not just add to it
  };

  const TapeRecord& record_;
  const TapeNames& names_;
  std::unordered_map<const c10::StorageImpl*, Written> written_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_HOST_COUNTERS_H_
