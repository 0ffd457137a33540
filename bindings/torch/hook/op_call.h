// One call of an operator in canonical form.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_OP_CALL_H_
#define REPRISE_BINDINGS_TORCH_HOOK_OP_CALL_H_

#include <ATen/core/Tensor.h>

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "bindings/torch/base/inline_buffer.h"
#include "bindings/torch/hook/call_device.h"
#include "bindings/torch/runtime/op_info.h"
#include "engine/trace/op.h"
#include "scheduler/runtime.h"

namespace reprise::engine {
struct TracedOp;
}

namespace reprise::bindings {

// What a word that opens an argument says in its highest byte; the lower bytes
// hold the argument itself where it fits, else how many words follow.
enum class Tag : uint8_t {
  kNone = 1,    // an optional without value
  kUndefined,   // an undefined tensor
  kOperand,     // a tensor of the session's device
  kHostScalar,  // a 0-dimensional host tensor, by value
  kHostTensor,  // any other one, without what it holds
  kTensorList,
  kInt,
  kDouble,
  kBool,
  kScalar,  // payload: c10::Scalar's type
  kEnum,    // dtype, layout, memory format
  kDevice,
  kString,
  kList,
  kBools,
  kCut,  // something that is never part of a trace
};

constexpr uint64_t TagWord(Tag tag, uint64_t payload = 0) {
  return uint64_t{static_cast<uint8_t>(tag)} << 56 | payload;
}

// What kernels are chosen by, of a tensor's address.
uint64_t AlignmentClass(uint64_t address, scheduler::DeviceKind kind);

// The words and operands of a call, filled argument by argument by Encode
// (encode.h) and shown to the session as `view()`. Lives on the stack of the
// hook, borrows the tensors of the call, takes no reference to them and
// allocates nothing for an op of usual size.
//
// Words: [0] operator and number of operands, [1] switches that any kernel may
// read, and which kernels the program has replaced (kernel_state.h), then the
// arguments in the schema's order, then the switches of the operator's class.
// For an operand: tag, dtype, rank, alignment class, flags; key set; sizes;
// strides. Neither addresses nor storage offsets.
class OpCall {
 public:
  OpCall(const OpInfo& info, scheduler::DeviceKind kind);
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

  // Encoding. Each argument begins with NextArgument.
  void NextArgument() { ++argument_; }
  void AddTensor(const at::Tensor& tensor);
  void AddBool(bool value);
  void AddDouble(double value) {
    uint64_t* word = words_.Extend(2);
    word[0] = TagWord(Tag::kDouble);
    word[1] = std::bit_cast<uint64_t>(value);
    zero_arguments_ |= uint64_t{value == 0} << argument_;
    if (info_.by_value.doubles) AddNumber(engine::NumberType::kFloat64, 1);
  }
  // The word `from_end` words before the end is a number that may be a slot.
  void AddNumber(engine::NumberType type, size_t from_end) {
    if (info_.by_value.scalars)
      AddNumber(type, from_end, info_.by_value.decide);
  }
  // The argument is a number that is 0.
  void NoteZero() { zero_arguments_ |= uint64_t{1} << argument_; }
  void AddDevice(std::optional<c10::Device> device);
  WordBuffer& words() { return words_; }
  // The call cannot be part of a trace; `reason` is a string literal.
  void Cut(const char* reason) {
    if (cut_ == nullptr) cut_ = reason;
  }
  // See CallDevice.
  void SetForeign() { device_.SetForeign(); }

  // After the last argument: the device whose session sees this call, or none
  // if it is foreign. Completes words and operands.
  std::optional<int> Finish();

  const CallDevice& device() const { return device_; }

  // After the op ran: reads again where written operands are, and how often
  // autograd has counted them as written below this hook. False if one has got
  // another layout or another storage.
  bool RefreshWritten();
  // Has autograd count what the followed op writes as eager does below this
  // hook.
  void BumpVersions(const engine::TracedOp& op) const;

  // Eager has run the op, and it has warned.
  void SetWarned() { warned_ = true; }

  const OpInfo& info() const { return info_; }
  scheduler::DeviceKind kind() const { return device_.kind(); }
  bool foreign() const { return device_.foreign(); }
  engine::OpView view() const;
  // A call that is a cut, or a copy from the host, may end with the host having
  // waited for the stream.
  bool may_wait() const {
    return (cut_ != nullptr || by_eager_) &&
           (info_.non_blocking_argument < 0 ||
            (true_arguments_ >> info_.non_blocking_argument & 1) == 0);
  }

  std::span<const engine::Operand> operands() const { return operands_.span(); }
  c10::TensorImpl* tensor(size_t operand) const {
    return sources_[operand].tensor;
  }
  // The previous argument was a device.
  bool follows_device() const { return device_argument_ == argument_ - 1; }

 private:
  void AddNumber(engine::NumberType type, size_t from_end,
                 engine::Decides decides) {
    const size_t word = words_.size() - from_end;
    numbers_.Push({static_cast<uint32_t>(word), type, words_[word], decides});
  }
  struct Source {
    c10::TensorImpl* tensor;
    uint32_t word;  // of its tag
    int argument;
    uint32_t version;  // as autograd counts, of what is written; else 0
  };

  void AddOperand(c10::TensorImpl* tensor);
  void AddHostScalar(const c10::TensorImpl* tensor);
  void AddHostTensor(const c10::TensorImpl& tensor);
  void CutForDevices() { Cut("operands on several devices"); }
  bool Written() const {
    return (info_.written.by_schema >> argument_ & 1) != 0;
  }
  // What few operators need behind their last argument (OpInfo::completed).
  void Complete();
  void ApplyHiddenWrites();
  void NoteUnread();
  bool NumbersMayBeSlots() const;
  // Ops on lists of tensors of several types hold one number in several ways,
  // of which some may stay where others change. Attributes are held in one.
  bool HasMixedList() const;
  void ForgetSeeds();
  void AddStorages();

  const OpInfo& info_;
  CallDevice device_;
  int argument_ = -1;
  int device_argument_ = -2;
  bool has_written_ = false;
  bool may_trap_ = false;
  bool may_try_kernels_ = false;
  bool by_eager_ = false;
  bool warned_ = false;
  uint64_t switches_ = 0;        // see engine::OpView
  uint64_t true_arguments_ = 0;  // bit i: argument i is the bool true
  uint64_t zero_arguments_ = 0;  // bit i: argument i is the number 0
  uint64_t dtypes_ = 0;  // bit d: an operand or host scalar is of dtype d
  const char* cut_ = nullptr;
  WordBuffer words_;
  InlineBuffer<engine::Operand, 6> operands_;
  InlineBuffer<Source, 6> sources_;
  // No operator takes more beside lists of them.
  InlineBuffer<engine::Scalar, 4> numbers_;
  std::array<uint32_t, 2> seed_words_{};  // of a seed and an offset; 0: none
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_OP_CALL_H_
