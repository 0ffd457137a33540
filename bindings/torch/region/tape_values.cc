#include "bindings/torch/region/tape_values.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/torch/base/autocast_state.h"
#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/result_words.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/region/tape_views.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;
using Kind = TapeArgument::Kind;

// As Python's operators give a number to those that take tensors.
at::Tensor Wrapped(const at::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// Keeps the counts of writes of what a call writes as they are.
class KeptCounts {
 public:
  KeptCounts(const TapeCall& call, std::span<const c10::IValue> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!Writes(call.op, i)) continue;
      ForTensors(arguments.subspan(i, 1), [this](const at::Tensor& tensor) {
        if (!tensor.defined() || tensor.is_inference()) return;
        const c10::VariableVersion count =
            tensor.unsafeGetTensorImpl()->version_counter();
        before_.emplace_back(count, count.current_version());
      });
    }
  }

  KeptCounts(const KeptCounts&) = delete;
  KeptCounts& operator=(const KeptCounts&) = delete;
  ~KeptCounts() {
    for (auto& [count, version] : before_) count.set_version(version);
  }

 private:
  std::vector<std::pair<c10::VariableVersion, uint32_t>> before_;
};

}  // namespace

TapeValues::TapeValues(const Tape& tape, bool held)
    : given_(tape.given()),
      record_(tape.record()),
      held_(held),
      surroundings_(c10::impl::tls_local_dispatch_key_set()),
      made_(record_.registers.size()) {}

bool TapeValues::Begin(const TapeInputs& inputs) {
  for (const uint32_t i : given_.inputs) {
    made_[i] = inputs.tensors[record_.registers[i].index];
  }
  if (!held_ && !TakeAll()) return false;
  for (const uint32_t i : given_.gradients) {
    const auto of = static_cast<int32_t>(record_.registers[i].index);
    made_[i] = Look(of)->grad();
    if (!made_[i].defined()) return false;
  }
  for (const uint32_t i : given_.constants) {
    // Calls may write it, or hand it out.
    made_[i] =
        CopyHostTensor(*record_.registers[i].content.unsafeGetTensorImpl());
  }
  return true;
}

void TapeValues::GoOnFrom(TapeValues& other, size_t registers) {
  for (size_t reg = 0; reg < registers; ++reg) {
    const Origin origin = record_.registers[reg].origin;
    // Calls may have written constants.
    if (origin == Origin::kResult || origin == Origin::kConstant) {
      made_[reg] = std::move(other.made_[reg]);
    }
  }
}

const at::Tensor& TapeValues::Take(int32_t reg) {
  static const at::Tensor undefined;
  if (reg < 0) return undefined;
  at::Tensor& made = (*this)[reg];
  const TapeRegister& of = record_.registers[static_cast<size_t>(reg)];
  if (made.defined() || of.origin != Origin::kForeign) return made;
  made = at::Tensor(of.foreign->lock());
  TORCH_INTERNAL_ASSERT(made.defined());
  return made;
}

bool TapeValues::TakeAll() {
  for (size_t k = 0; k < given_.foreign.size(); ++k) {
    if (made_[given_.foreign[k]].defined()) continue;
    auto tensor = given_.tensors[k].lock();
    if (!tensor) return false;
    made_[given_.foreign[k]] = at::Tensor(std::move(tensor));
  }
  return true;
}

c10::TensorImpl* TapeValues::Look(int32_t reg) const {
  if (reg < 0) return nullptr;
  const auto index = static_cast<size_t>(reg);
  if (made_[index].defined()) return made_[index].unsafeGetTensorImpl();
  const TapeRegister& of = record_.registers[index];
  return of.origin == Origin::kForeign ? of.foreign->_unsafe_get_target()
                                       : nullptr;
}

c10::IValue TapeValues::ValueOf(const TapeArgument& argument,
                                const TapeInputs& inputs) {
  switch (argument.kind) {
    case Kind::kValue:
      if (argument.wrapped) return Wrapped(argument.value.toScalar());
      break;
    case Kind::kNumber: {
      const double given = inputs.numbers[argument.index];
      const double number = argument.negated ? -given : given;
      return argument.wrapped ? c10::IValue(Wrapped(number)) : number;
    }
    case Kind::kNumbers: {
      c10::impl::GenericList list = argument.value.toList().copy();
      for (const auto& [element, number] : argument.numbers) {
        list.set(element, inputs.numbers[number]);
      }
      return list;
    }
    case Kind::kTensor:
      return Take(argument.registers[0]);
    case Kind::kTensors: {
      c10::List<at::Tensor> list;
      list.reserve(argument.registers.size());
      for (const int32_t reg : argument.registers) {
        list.push_back(Take(reg));
      }
      return list;
    }
    case Kind::kOptionalTensors: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(argument.registers.size());
      for (const int32_t reg : argument.registers) {
        if (reg == TapeArgument::kNone) {
          list.push_back(std::nullopt);
        } else {
          list.push_back(Take(reg));
        }
      }
      return list;
    }
  }
  return argument.value;
}

bool TapeValues::Make(const TapeCall& call, const TapeInputs& inputs,
                      torch::jit::Stack& stack) {
  at::GradMode::set_enabled(call.grad_mode == GradientMode::kOn);
  std::optional<c10::impl::ForceDispatchKeyGuard> as_program;
  if (call.calls_python) as_program.emplace(surroundings_);
  const c10::impl::ExcludeDispatchKeyGuard inner(
      call.below_views ? c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)
                       : c10::DispatchKeySet());
  std::optional<AutocastGuard> autocast;
  if (call.autocast.has_value()) [[unlikely]]
    autocast.emplace(*call.autocast);
  stack.clear();
  for (const TapeArgument& argument : call.arguments) {
    stack.push_back(ValueOf(argument, inputs));
  }
  PlacesOfData given;
  if (call.reads_results) given = StoragesOf(stack);
  {
    std::optional<KeptCounts> kept;
    if (call.writes_data) [[unlikely]]
      kept.emplace(call, stack);
    call.op.callBoxed(stack);
  }
  if (call.reads_results) {
    if (!HaveWords(stack, given, call.read)) {
      read_ = WordsOf(stack, given);
      return false;
    }
  } else if (!call.read.isNone() && !SameValue(stack[0], call.read)) {
    read_ = stack[0];
    return false;
  }
  auto result = call.results.begin();
  ForTensors(stack, [&](const at::Tensor& tensor) {
    if (const int32_t reg = *result++; reg >= 0) (*this)[reg] = tensor;
  });
  stack.clear();
  return true;
}

void TapeValues::MakeViews(const TapeCall& call) {
  c10::TensorImpl* const of = Look(call.arguments[0].registers[0]);
  for (const int32_t reg : call.results) {
    if (reg < 0) continue;
    at::Tensor& made = (*this)[reg];
    made = MakeOver(of->storage(),
                    record_.registers[static_cast<size_t>(reg)].form);
    c10::TensorImpl* const view = made.unsafeGetTensorImpl();
    if (!of->is_inference()) view->set_version_counter(of->version_counter());
    if (call.detaches) view->set_allow_tensor_metadata_change(false);
  }
}

void TapeValues::DropBehind(const TapeCall& call) {
  for (const int32_t reg : call.last_uses) (*this)[reg].reset();
}

void TapeValues::DropGradients() const {
  // Their memory goes before the next ones' is wanted, as in eager. Who reads
  // one holds it.
  for (const TapeGradient& gradient : record_.gradients) {
    if (gradient.after != TapeArgument::kNone) {
      Look(static_cast<int32_t>(gradient.of))->mutable_grad().reset();
    }
  }
}

}  // namespace reprise::bindings
