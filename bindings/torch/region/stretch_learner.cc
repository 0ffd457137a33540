#include "bindings/torch/region/stretch_learner.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/hook/watched_op.h"
#include "bindings/torch/region/generator_states.h"
#include "bindings/torch/region/stretch_operand.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/region/tape_views.h"
#include "bindings/torch/runtime/op_table.h"
#include "bindings/torch/runtime/thread_state.h"

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;

bool IsHostTensor(const engine::ResultSpec& spec) {
  return spec.kind == engine::ResultSpec::Kind::kHost &&
         static_cast<const c10::IValue*>(spec.host.get())->isTensor();
}

// The tensor is what MakeResult would give.
bool IsAsSaid(const at::Tensor& tensor, const engine::ResultSpec& spec) {
  return tensor.defined() && IsPlainTensor(*tensor.unsafeGetTensorImpl()) &&
         static_cast<int32_t>(tensor.scalar_type()) == spec.dtype &&
         tensor.key_set().raw_repr() == spec.key_set &&
         static_cast<uint64_t>(tensor.storage_offset()) * spec.element_bytes ==
             spec.offset_bytes &&
         std::ranges::equal(tensor.sizes(), spec.sizes) &&
         std::ranges::equal(tensor.strides(), spec.strides);
}

}  // namespace

bool StretchLearner::MayBeUnseen(const TapeCall& call) const {
  if (call.read_again || call.calls_python) return false;
  // A plan gives the forms that it knows, and no numbers.
  const bool gives_tensors = std::ranges::all_of(
      call.op.schema().returns(), [](const c10::Argument& result) {
        return result.type()->kind() == c10::TypeKind::TensorType;
      });
  if (!call.read.isNone() && !(call.reads_results && gives_tensors)) {
    return false;
  }
  // Between what draws before it and behind it.
  if (GeneratorStates::AreOf(call.op)) return false;
  return std::ranges::none_of(
      call.arguments, [this](const TapeArgument& argument) {
        if (argument.Varies()) return true;
        // What a tensor of the host holds is a part of the op.
        return t_thread_state.kind == scheduler::DeviceKind::kCuda &&
               std::ranges::any_of(argument.registers, [this](int32_t reg) {
                 return reg >= 0 && !made_[reg].is_cuda();
               });
      });
}

void StretchLearner::NoteVersions(const TapeCall& call) {
  for (const TapeArgument& argument : call.arguments) {
    for (const int32_t reg : argument.registers) {
      if (reg < 0 || !record_.registers[static_cast<size_t>(reg)].outside)
        continue;
      const at::Tensor& tensor = made_[reg];
      if (tensor.is_inference()) continue;  // counts nothing
      due_.versions.emplace_back(reg, tensor._version());
    }
  }
  // A list may have one twice.
  std::ranges::sort(due_.versions);
  const auto twice = std::ranges::unique(due_.versions);
  due_.versions.erase(twice.begin(), twice.end());
}

bool StretchLearner::FindOperands(const TapeCall& call,
                                  scheduler::Session& session) {
  std::vector<int32_t> given;  // in the order in which hooks encode them
  for (const TapeArgument& argument : call.arguments) {
    std::ranges::copy_if(argument.registers, std::back_inserter(given),
                         [](int32_t reg) { return reg >= 0; });
  }
  const std::vector<engine::ValueRef>& refs = due_.op->operands;
  // The op itself tells where it is.
  const auto is_told = [this](const engine::ValueRef& ref) {
    return due_.program->effects.late(ref.value) &&
           due_.program->trace->values[ref.value].birth_op == due_.index;
  };
  if (due_.own) {
    if (given.size() != refs.size()) return false;
    for (size_t i = 0; i < refs.size(); ++i) {
      const auto placed =
          Placed(*made_[given[i]].unsafeGetTensorImpl(), refs[i]);
      if (!is_told(refs[i]) && !session.IsAt(placed)) return false;
      due_.operands.push_back({given[i], refs[i], AlignmentOf(placed)});
    }
    return true;
  }
  // A part of what the call did: where each lies is all that is answered.
  std::vector<bool> found(refs.size(), false);
  for (const int32_t reg : given) {
    const size_t before = due_.operands.size();
    for (size_t i = 0; i < refs.size(); ++i) {
      const auto placed = Placed(*made_[reg].unsafeGetTensorImpl(), refs[i]);
      if (!session.IsAt(placed)) continue;
      due_.operands.push_back({reg, refs[i], AlignmentOf(placed)});
      found[i] = true;
    }
    if (due_.operands.size() == before) return false;
  }
  return std::ranges::all_of(found, std::identity());
}

void StretchLearner::Before(size_t call, scheduler::Session* session) {
  learned_.resize(record_.calls.size());
  due_ = {};
  if (session == nullptr) return;
  const TapeCall& made = record_.calls[call];
  const bool may_be_unseen = MayBeUnseen(made);
  const LockedSession locked(*session);
  scheduler::Session::Following following = session->following();
  if (following.program == nullptr) return;
  saw_replay_ = true;
  due_ = {.program = following.program,
          .index = following.next_op,
          .followed = following.followed};
  if (GivesViews(made.op)) return;
  const engine::TracedOp& op = following.program->trace->ops[following.next_op];
  due_.op = &op;
  due_.own = OpName(op.op) == c10::toString(made.op.operator_name());
  if (!may_be_unseen || op.by_eager ||
      !following.program->effects.tells_places(following.next_op) ||
      !FindOperands(made, *session)) {
    due_ = {};
  } else {
    NoteVersions(made);
  }
}

bool StretchLearner::MakesAlone(const engine::ResultSpec& spec) const {
  const engine::Value& value = due_.program->trace->values[spec.value];
  return !value.external && value.birth_op == due_.index &&
         std::ranges::count_if(
             due_.op->results, [&](const engine::ResultSpec& other) {
               return other.IsValue() && other.value == spec.value;
             }) == 1;
}

bool StretchLearner::FindReformed(const TapeCall& call,
                                  scheduler::Session& session,
                                  AnsweredCall& answered) const {
  const std::vector<engine::ResultSpec>& all = due_.op->results;
  if (all.size() != 1 || !all[0].IsValue() || !MakesAlone(all[0]) ||
      call.results.size() != 1 || !IsNew(call, call.results[0])) {
    return false;
  }
  const at::Tensor& made = made_[call.results[0]];
  const uint64_t offset_bytes =
      static_cast<uint64_t>(made.storage_offset()) * made.itemsize();
  const TensorForm& form =
      record_.registers[static_cast<size_t>(call.results[0])].form;
  answered.results.push_back({call.results[0], due_.index, 0, true});
  return form.Fits(*made.unsafeGetTensorImpl(), /*has_gradient=*/false) &&
         form.storage_offset == made.storage_offset() &&
         MakeOver(made.storage(), form).key_set() == made.key_set() &&
         session.IsAt(
             Placed(*made.unsafeGetTensorImpl(),
                    {.value = all[0].value, .offset_bytes = offset_bytes}));
}

bool StretchLearner::FindOwnResults(const TapeCall& call,
                                    AnsweredCall& answered) const {
  using SpecKind = engine::ResultSpec::Kind;
  const std::vector<engine::ResultSpec>& all = due_.op->results;
  // By index, those that stand for tensors; others are numbers.
  std::vector<uint32_t> specs;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != SpecKind::kHost || IsHostTensor(all[i])) {
      specs.push_back(i);
    }
  }
  const auto is_new = [&](int32_t reg) { return IsNew(call, reg); };
  // What is returned by reference has no part in them.
  if (specs.empty()) return std::ranges::none_of(call.results, is_new);
  if (specs.size() != call.results.size()) return false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const engine::ResultSpec& spec = all[specs[i]];
    const int32_t reg = call.results[i];
    switch (spec.kind) {
      case SpecKind::kUndefined:
        if (reg >= 0) return false;
        break;
      case SpecKind::kOperand:
        // Else it is a register that there was before.
        if (is_new(reg)) return false;
        break;
      case SpecKind::kHost:
        if (spec.tells != engine::ResultSpec::Tells::kNothing || !is_new(reg)) {
          return false;
        }
        answered.results.push_back({reg, due_.index, specs[i], false});
        break;
      case SpecKind::kValue:
        if (!is_new(reg) || !MakesAlone(spec) || !IsAsSaid(made_[reg], spec)) {
          return false;
        }
        answered.results.push_back({reg, due_.index, specs[i], false});
        break;
    }
  }
  return true;
}

void StretchLearner::After(size_t call, scheduler::Session* session) {
  if (session == nullptr) return;
  const LockedSession locked(*session);
  const scheduler::Session::Following now = session->following();
  if (due_.op == nullptr) {
    learned_[call].views = now.followed == due_.followed &&
                           now.program == due_.program &&
                           now.next_op == due_.index;
    return;
  }
  const bool last = due_.index + 1 == due_.program->trace->ops.size();
  const bool one =
      now.followed == due_.followed + 1 &&
      (last ? now.program == nullptr
            : now.program == due_.program && now.next_op == due_.index + 1);
  AnsweredCall answered{.program = due_.program,
                        .op = due_.index,
                        .operands = std::move(due_.operands)};
  const auto storage_of = [this](const TapeStretch::Bump& bump) {
    return made_[bump.reg].storage().unsafeGetStorageImpl();
  };
  for (const auto& [reg, before] : due_.versions) {
    const uint32_t times = made_[reg]._version() - before;
    if (times == 0) continue;
    const TapeStretch::Bump bump{reg, due_.index, times};
    // They may be counted together, or each by itself.
    if (std::ranges::find(answered.bumps, storage_of(bump), storage_of) !=
        answered.bumps.end()) {
      return;
    }
    answered.bumps.push_back(bump);
  }
  if (!one) return;
  const TapeCall& made = record_.calls[call];
  // Behind the last op the session no longer knows where values are.
  const bool found = due_.own ? FindOwnResults(made, answered)
                              : !last && FindReformed(made, *session, answered);
  if (found) learned_[call] = std::move(answered);
}

}  // namespace reprise::bindings
