#include "bindings/torch/region/tape_views.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/region/tape_ops.h"

namespace reprise::bindings {
namespace {

using Kind = TapeArgument::Kind;
using Origin = TapeRegister::Origin;

bool GivesSameViews(const TapeRecord& record, const TapeCall& call,
                    size_t index,
                    std::span<const c10::StorageImpl* const> storages,
                    const std::unordered_set<const c10::StorageImpl*>& given) {
  if (!GivesViews(call.op) || call.arguments[0].kind != Kind::kTensor ||
      call.arguments[0].wrapped || call.arguments[0].registers[0] < 0 ||
      std::ranges::any_of(call.arguments, [](const TapeArgument& argument) {
        return argument.Varies();
      })) {
    return false;
  }
  const auto of = static_cast<size_t>(call.arguments[0].registers[0]);
  return storages[of] != nullptr && !given.contains(storages[of]) &&
         std::ranges::all_of(call.results, [&](int32_t reg) {
           return reg < 0 ||
                  (record.registers[static_cast<size_t>(reg)].origin ==
                       Origin::kResult &&
                   record.registers[static_cast<size_t>(reg)].index == index &&
                   storages[static_cast<size_t>(reg)] == storages[of]);
         });
}

// Storages that may be others in each call. Where in them a view begins is
// another place then.
std::unordered_set<const c10::StorageImpl*> GivenStorages(
    const TapeRecord& record,
    std::span<const c10::StorageImpl* const> storages) {
  std::unordered_set<const c10::StorageImpl*> given;
  for (size_t reg = 0; reg < storages.size(); ++reg) {
    const Origin origin = record.registers[reg].origin;
    if (origin != Origin::kResult && origin != Origin::kForeign) {
      given.insert(storages[reg]);
    }
  }
  return given;
}

// By register: the program gets it. What autograd saves nobody else sees.
std::vector<bool> HandedOut(const TapeRecord& record) {
  std::vector<bool> handed_out(record.registers.size(), false);
  const auto hand_out = [&](int32_t reg) {
    if (reg >= 0) handed_out[static_cast<size_t>(reg)] = true;
  };
  const size_t own = std::min(record.saved_from, record.outputs.size());
  for (size_t i = 0; i < own; ++i) hand_out(record.outputs[i]);
  for (const TapeGradient& gradient : record.gradients) {
    hand_out(gradient.after);
  }
  return handed_out;
}

// TapeRegister::outside.
void NoteOutside(TapeRecord& record,
                 std::span<const c10::StorageImpl* const> storages) {
  std::unordered_set<const c10::StorageImpl*> outside;
  const auto insert = [&](int32_t reg) {
    if (reg >= 0) outside.insert(storages[static_cast<size_t>(reg)]);
  };
  for (size_t reg = 0; reg < storages.size(); ++reg) {
    if (record.registers[reg].origin != Origin::kResult) {
      outside.insert(storages[reg]);
    }
  }
  std::ranges::for_each(record.outputs, insert);
  std::ranges::for_each(record.gradients, insert, &TapeGradient::after);
  for (size_t reg = 0; reg < storages.size(); ++reg) {
    record.registers[reg].outside =
        storages[reg] == nullptr || outside.contains(storages[reg]);
  }
}

// The versions of what the call writes tell of it.
void NoteWritten(const TapeCall& call, std::vector<bool>& seen) {
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!Writes(call.op, i)) continue;
    for (const int32_t reg : call.arguments[i].registers) {
      if (reg >= 0) seen[static_cast<size_t>(reg)] = true;
    }
  }
}

// What the call returns may be views of what it is given.
void NoteReturned(const TapeCall& call,
                  std::span<const c10::StorageImpl* const> storages,
                  std::vector<bool>& seen) {
  for (const TapeArgument& argument : call.arguments) {
    for (const int32_t reg : argument.registers) {
      if (reg < 0) continue;
      const auto given_as = static_cast<size_t>(reg);
      seen[given_as] =
          seen[given_as] ||
          std::ranges::any_of(call.results, [&](int32_t result) {
            return result >= 0 &&
                   storages[static_cast<size_t>(result)] == storages[given_as];
          });
    }
  }
}

}  // namespace

at::Tensor MakeOver(const c10::Storage& storage, const TensorForm& form) {
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, form.keys);
  return MakeTensor(storage,
                    keys.has_backend(c10::BackendComponent::CUDABit)
                        ? c10::DispatchKey::CUDA
                        : c10::DispatchKey::CPU,
                    {.keys = keys,
                     .dtype = form.dtype,
                     .storage_offset = form.storage_offset,
                     .sizes = form.sizes,
                     .strides = form.strides});
}

void NoteViews(TapeRecord& record,
               std::span<const c10::StorageImpl* const> storages) {
  // Replays make views in the mode of the calls.
  std::optional<c10::InferenceMode> inference;
  if (!record.calls.empty() &&
      record.calls.front().grad_mode == GradientMode::kInference) {
    inference.emplace();
  }
  NoteOutside(record, storages);
  const std::unordered_set<const c10::StorageImpl*> given =
      GivenStorages(record, storages);
  // Whoever looks at a version, or at what a tensor is a view of, must not meet
  // one that was made in another way.
  const std::vector<bool> handed_out = HandedOut(record);
  const auto is_handed_out = [&](int32_t reg) {
    return reg >= 0 && handed_out[static_cast<size_t>(reg)];
  };
  std::vector<bool> seen(record.registers.size(), false);
  const c10::Storage nothing = at::detail::empty_cpu({0}, at::kByte).storage();
  const auto made_by_form = [&](int32_t reg) {
    if (reg < 0) return true;
    const TensorForm& form = record.registers[static_cast<size_t>(reg)].form;
    return !seen[static_cast<size_t>(reg)] &&
           form.keys == MakeOver(nothing, form).key_set().raw_repr();
  };
  for (size_t c = record.calls.size(); c-- > 0;) {
    TapeCall& call = record.calls[c];
    NoteWritten(call, seen);
    call.views = GivesSameViews(record, call, c, storages, given);
    // No program can tell that of a detached one: it is no view of anything.
    call.detaches = call.op.operator_name().name == "aten::detach";
    call.only_views =
        call.views && std::ranges::all_of(call.results, [&](int32_t reg) {
          return made_by_form(reg) && (call.detaches || !is_handed_out(reg));
        });
    if (!call.only_views) NoteReturned(call, storages, seen);
  }
}

}  // namespace reprise::bindings
