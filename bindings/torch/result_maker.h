// Results of a followed op.

#ifndef REPRISE_BINDINGS_TORCH_RESULT_MAKER_H_
#define REPRISE_BINDINGS_TORCH_RESULT_MAKER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>
#include <c10/util/SmallVector.h>

#include <tuple>
#include <type_traits>
#include <vector>

#include "bindings/torch/op_call.h"
#include "engine/trace.h"
#include "scheduler/session.h"

namespace reprise::bindings {

// Makes what `call` returns from session.followed(), result by result, in the
// order and with the flattening of ResultList. Single use, under the session's
// lock. About 85 ns a tensor, which is three allocations.
class ResultMaker {
 public:
  ResultMaker(scheduler::Session& session, const OpCall& call)
      : session_(session), call_(call), op_(session.followed()) {}
  ResultMaker(const ResultMaker&) = delete;
  ResultMaker& operator=(const ResultMaker&) = delete;

  // R is a type that no part of is a reference.
  template <typename R>
  R Make() {
    if constexpr (std::is_same_v<R, std::vector<at::Tensor>>) {
      return TakeTensors(op_.results.size());
    } else {
      return MakePart(static_cast<R*>(nullptr));
    }
  }

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

  const engine::ResultSpec& Next();
  at::Tensor OverValue(const engine::ResultSpec& spec);

  struct Made {
    engine::ValueId value;
    c10::Storage storage;
  };

  scheduler::Session& session_;
  const OpCall& call_;
  const engine::TracedOp& op_;
  size_t next_ = 0;
  c10::SmallVector<Made, 2> made_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RESULT_MAKER_H_
