// Writes down what Python reads and computes.

#ifndef REPRISE_BINDINGS_TORCH_REGION_NUMBER_WRITER_H_
#define REPRISE_BINDINGS_TORCH_REGION_NUMBER_WRITER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "bindings/torch/region/host_counters.h"
#include "bindings/torch/region/tape_fault.h"
#include "bindings/torch/region/tape_names.h"
#include "bindings/torch/region/tape_record.h"

namespace reprise::bindings {

// The arithmetic of one recording. A call may read a number ahead, which is one
// of a tensor of the host that HostCounters knows; Python takes it right behind
// the call, and tells at the end what it computed. Borrows all that it is made
// of. One thread at a time.
class NumberWriter {
 public:
  NumberWriter(TapeRecord& record, TapeFault& fault, TapeNames& names)
      : record_(record),
        fault_(fault),
        names_(names),
        counters_(record, names) {}

  // Before the first call: what these hold.
  void Begin(std::span<const at::Tensor> watched);
  // It is a tensor that may be read ahead, such as an optimizer's steps.
  bool IsCounter(const c10::IValue& value) const {
    return value.isTensor() &&
           before_.contains(value.toTensor().unsafeGetTensorImpl());
  }
  // What the next call reads is known before the first call of the callable.
  bool MayReadAhead(const c10::OperatorHandle& op,
                    std::span<const c10::IValue> arguments);
  // The call that was written down last, when it has its arguments.
  void NoteCall();
  // It writes the tensors of that argument.
  void NoteWrite(std::span<const c10::IValue> arguments, size_t index) {
    counters_.NoteWrite(record_.calls.size() - 1, arguments, index);
  }
  // It has read ahead, and gave this.
  void NoteRead(const c10::IValue& value);
  // See TapeRecorder::TakeRead and TapeRecorder::NoteArithmetic.
  int64_t TakeRead();
  void NoteComputed(std::vector<NumberNode> nodes, std::vector<double> values);

  // At the end: what Python computed is what would be computed again. `notes`:
  // the floats were to note what Python does with them.
  void Check(bool notes);

 private:
  TapeRecord& record_;
  TapeFault& fault_;
  TapeNames& names_;
  HostCounters counters_;
  // By counter: what it held before the first call. They are kept meanwhile.
  std::unordered_map<const c10::TensorImpl*, double> before_;
  std::optional<NumberRead> next_;  // of the call that is about to be made
  size_t taken_ = 0;
  std::vector<double> computed_;  // by node, Python's values
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_REGION_NUMBER_WRITER_H_
