// Results of a followed op.

#ifndef REPRISE_BINDINGS_TORCH_HOOK_RESULT_MAKER_H_
#define REPRISE_BINDINGS_TORCH_HOOK_RESULT_MAKER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>

#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "bindings/torch/base/inline_buffer.h"
#include "bindings/torch/hook/op_call.h"
#include "engine/trace/trace.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// The memory of a value that a replay has made, of a kind and a number of
// device: once a launch, under the session's lock (Session::TakeBlock).
c10::Storage TakeStorage(scheduler::Session& session,
                         const engine::ResultSpec& spec,
                         scheduler::DeviceKind kind, int device);
// The result over it (ResultSpec::IsValue).
at::Tensor MakeResult(const engine::ResultSpec& spec, c10::Storage storage,
                      scheduler::DeviceKind kind);

// Makes what `call` returns from session.followed(), result by result, in the
// order and with the flattening of ResultList, in two steps:
//
//   Make()      under the session's lock: all tensors over memory of the plan
//   Complete()  after it, unless complete(): those that are the program's own,
//               operands and views of them. A reference to one may need
//               Python's lock, and who has that one may wait for the session.
//
// Single use. About 85 ns a tensor, which is three allocations.
class ResultMaker {
 public:
  ResultMaker(scheduler::Session& session, const OpCall& call)
      : session_(session), call_(call), op_(session.followed()) {}
  ResultMaker(const ResultMaker&) = delete;
  ResultMaker& operator=(const ResultMaker&) = delete;

  // R is a type that no part of is a reference. Undefined tensors stand where
  // Complete puts others.
  template <typename R>
  R Make() {
    if constexpr (std::is_same_v<R, std::vector<at::Tensor>>) {
      return TakeTensors(op_.results.size());
    } else {
      return MakePart(static_cast<R*>(nullptr));
    }
  }

  bool complete() const { return late_ == nullptr; }
  // Once, of all that was made, in the same order.
  template <typename R>
  void Complete(R& made) {
    if constexpr (std::is_same_v<R, at::Tensor>) {
      CompleteTensor(made);
    } else if constexpr (std::is_same_v<R, std::vector<at::Tensor>>) {
      for (at::Tensor& tensor : made) CompleteTensor(tensor);
    } else if constexpr (requires { std::tuple_size<R>::value; }) {
      std::apply([this](auto&... part) { (Complete(part), ...); }, made);
    }
  }

  // As parts of Make.
  at::Tensor TakeTensor();
  std::vector<at::Tensor> TakeTensors(size_t count);
  const c10::IValue& TakeHost();
  size_t count() const { return op_.results.size(); }
  size_t left() const { return op_.results.size() - next_; }

 private:
  at::Tensor MakePart(at::Tensor*) { return TakeTensor(); }
  std::vector<at::Tensor> MakePart(std::vector<at::Tensor>*) {
    return TakeTensors(static_cast<size_t>(TakeHost().toInt()));
  }
  c10::SymInt MakePart(c10::SymInt*) { return TakeHost().toInt(); }
  int64_t MakePart(int64_t*) { return TakeHost().toInt(); }
  bool MakePart(bool*) { return TakeHost().toBool(); }
  at::Scalar MakePart(at::Scalar*) { return TakeHost().toScalar(); }
  template <typename... T>
  std::tuple<T...> MakePart(std::tuple<T...>*) {
    // Braces, because they are evaluated from left to right.
    return std::tuple<T...>{MakePart(static_cast<T*>(nullptr))...};
  }

  // The result before that is over it holds it.
  struct Made {
    engine::ValueId value;
    c10::StorageImpl* storage;
  };
  // An operand, or a view of one; kept apart from the plan, which may go.
  struct Late {
    size_t tensor;  // of all that are made
    uint32_t operand;
    bool view;
    int64_t storage_offset;
    c10::DispatchKeySet keys;
    at::ScalarType dtype;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };

  const engine::ResultSpec& Next();
  at::Tensor OfHost(const engine::ResultSpec& spec);
  at::Tensor OverValue(const engine::ResultSpec& spec);
  void CompleteTensor(at::Tensor& tensor);
  void AddLate(Late late);
  scheduler::Session& session_;
  const OpCall& call_;
  const engine::TracedOp& op_;
  size_t next_ = 0;
  size_t tensors_ = 0;
  size_t completed_ = 0;
  InlineBuffer<Made, 4> made_;
  std::unique_ptr<std::vector<Late>> late_;  // null: none, as of most ops
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOK_RESULT_MAKER_H_
