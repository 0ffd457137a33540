#include "bindings/torch/hook/boxed_hook.h"

#include <utility>

#include "bindings/torch/hook/boxed_call.h"
#include "bindings/torch/hook/encode.h"
#include "bindings/torch/hook/hook.h"
#include "bindings/torch/hook/result_maker.h"
#include "bindings/torch/hook/results.h"
#include "bindings/torch/runtime/session_source.h"
#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

// As the overloads of encode.h, by what the value is.
void EncodeBoxed(OpCall& call, const c10::IValue& value) {
  if (value.isTensor()) {
    call.AddTensor(value.toTensor());
  } else if (value.isNone()) {
    call.words().Push(TagWord(Tag::kNone));
  } else if (value.isInt()) {
    Encode(call, value.toInt());
  } else if (value.isBool()) {
    if (value.toBool() && call.follows_device()) call.SetForeign();
    Encode(call, value.toBool());
  } else if (value.isDouble()) {
    Encode(call, value.toDouble());
  } else if (value.isScalar()) {
    Encode(call, value.toScalar());
  } else if (value.isDevice()) {
    Encode(call, value.toDevice());
  } else if (value.isString()) {
    Encode(call, std::string_view(value.toStringRef()));
  } else if (value.isSymInt()) {
    Encode(call, value.toSymInt());
  } else if (value.isOptionalTensorList()) {
    Encode(call, value.toOptionalTensorList());
  } else if (value.isTensorList()) {
    const auto list = value.toListRef();
    call.words().Push(TagWord(Tag::kTensorList, list.size()));
    for (const c10::IValue& element : list) EncodeBoxed(call, element);
  } else if (value.isIntList() || value.isDoubleList() || value.isBoolList() ||
             value.isSymIntList()) {
    const auto list = value.toList();
    call.words().Push(TagWord(Tag::kList, list.size()));
    for (const c10::IValue& element : list) EncodeBoxed(call, element);
  } else {
    call.words().Push(TagWord(Tag::kCut));
    call.Cut("custom operator");
  }
}

}  // namespace

BoxedHook::Form::Form(const OpInfo* described) : info(described) {
  if (info == nullptr) return;
  const c10::FunctionSchema& schema = info->handle.schema();
  arguments = schema.arguments().size();
  for (const c10::Argument& result : schema.returns()) {
    int& argument = returns.emplace_back(-1);
    if (result.alias_info() != nullptr) {
      for (size_t i = 0; i < arguments; ++i) {
        const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
        if (alias != nullptr &&
            alias->beforeSets() == result.alias_info()->beforeSets()) {
          argument = static_cast<int>(i);
        }
      }
    }
    results += argument < 0;
  }
}

void BoxedHook::Define(const OpInfo* info) {
  if (forms_.size() == kMostForms) return;
  forms_.push_back(std::make_unique<const Form>(info));
  form_.store(forms_.back().get(), std::memory_order_release);
}

void BoxedHook::operator()(const c10::OperatorHandle& op,
                           c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & kBelowHook;
  ThreadState& thread = t_thread_state;
  const Showing showing = ShowingOf(thread, below);
  if (showing == Showing::kSkip) {
    const SkippedOp inside;
    op.redispatchBoxed(below, stack);
    return;
  }
  if (showing == Showing::kElsewhere) {
    const OpElsewhere noted;
    op.redispatchBoxed(below, stack);
    return;
  }
  // Behind it: that is where what was defined anew is described.
  const Form* form = form_.load(std::memory_order_acquire);
  if (showing == Showing::kShow) {
    if (form == nullptr) {
      const AnythingUnderWay noted;
      InterruptSessions("an operator that was defined anew");
      const DepthGuard inside;
      op.redispatchBoxed(below, stack);
      return;
    }
    if (form->info != nullptr && form->info->Shown(below)) {
      Watch(*form, thread, below, stack);
      return;
    }
  } else if (showing == Showing::kInside && form != nullptr &&
             form->info != nullptr) {
    NoteInside(*form->info, below);
  }
  op.redispatchBoxed(below, stack);
}

void BoxedHook::Watch(const Form& form, ThreadState& thread,
                      c10::DispatchKeySet below, torch::jit::Stack* stack) {
  WatchedOp op(thread, *form.info, below);
  const auto arguments = torch::jit::last(*stack, form.arguments);
  for (const c10::IValue& argument : arguments) {
    op.call().NextArgument();
    EncodeBoxed(op.call(), argument);
  }
  switch (op.Enter()) {
    case WatchedOp::Step::kFollow:
      Follow(form, op, stack);
      return;
    case WatchedOp::Step::kObserve:
      op.StartEager();
      if (op.wants_call()) {
        BoxedCall& boxed = op.NewBoxedCall();
        for (const c10::IValue& argument : arguments) BoxBoxed(boxed, argument);
      }
      Observe(form, op, below, stack);
      return;
    case WatchedOp::Step::kEager:
      op.StartEager();
      break;
    case WatchedOp::Step::kPass:
      break;
  }
  form.info->handle.redispatchBoxed(below, stack);
}

void BoxedHook::Observe(const Form& form, WatchedOp& op,
                        c10::DispatchKeySet below, torch::jit::Stack* stack) {
  // The call takes its arguments off the stack, but the session is shown them
  // once more after it.
  const torch::jit::Stack arguments(stack->end() - form.arguments,
                                    stack->end());
  form.info->handle.redispatchBoxed(below, stack);
  ResultList list(op.call());
  const auto returned = torch::jit::last(*stack, form.returns.size());
  for (size_t r = 0; r < form.returns.size(); ++r) {
    if (form.returns[r] < 0) list.AddBoxed(returned[r], form.results == 1);
  }
  op.Leave(list);
}

void BoxedHook::Follow(const Form& form, WatchedOp& op,
                       torch::jit::Stack* stack) {
  ResultMaker maker(op.session(), op.call());
  // What is no argument, by what it is.
  struct Part {
    bool list = false;
    std::vector<at::Tensor> tensors;
    c10::IValue host;
  };
  std::vector<Part> parts(form.returns.size());
  for (size_t r = 0; r < form.returns.size(); ++r) {
    if (form.returns[r] >= 0) continue;
    const auto kind = form.info->handle.schema().returns()[r].type()->kind();
    if (kind == c10::TypeKind::TensorType) {
      parts[r].tensors.push_back(maker.TakeTensor());
    } else if (kind == c10::TypeKind::ListType) {
      const size_t count = form.results == 1
                               ? maker.count()
                               : static_cast<size_t>(maker.TakeHost().toInt());
      parts[r].list = true;
      parts[r].tensors = maker.TakeTensors(count);
    } else {
      parts[r].host = maker.TakeHost();
    }
  }
  op.Unlock();
  torch::jit::Stack returned;
  returned.reserve(form.returns.size());
  const auto arguments = torch::jit::last(*stack, form.arguments);
  for (size_t r = 0; r < form.returns.size(); ++r) {
    Part& part = parts[r];
    maker.Complete(part.tensors);
    if (form.returns[r] >= 0) {
      returned.push_back(arguments[form.returns[r]]);
    } else if (part.list) {
      returned.emplace_back(std::move(part.tensors));
    } else if (!part.tensors.empty()) {
      returned.emplace_back(std::move(part.tensors.front()));
    } else {
      returned.push_back(std::move(part.host));
    }
  }
  torch::jit::drop(*stack, form.arguments);
  for (c10::IValue& value : returned) stack->push_back(std::move(value));
}

}  // namespace reprise::bindings
