#include "bindings/torch/region/tape.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <unordered_set>
#include <utility>

#include "bindings/torch/base/inline_buffer.h"
#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/base/plain_tensor.h"
#include "bindings/torch/base/torch_versions.h"
#include "bindings/torch/region/tape_ops.h"
#include "bindings/torch/runtime/switches.h"

namespace reprise::bindings {
namespace {

using Origin = TapeRegister::Origin;
using Kind = TapeArgument::Kind;

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

bool Tape::calls_others() const {
  return std::ranges::any_of(calls_, [](const TapeCall& call) {
    const std::string& name = call.op.operator_name().name;
    return !name.starts_with("aten::") && !name.starts_with("prims::");
  });
}

bool Tape::FitsNumbers(const TapeInputs& inputs) const {
  if (inputs.numbers.size() != numbers_.size()) return false;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    if (varies_[i] ? !std::isfinite(inputs.numbers[i])
                   : !SameBits(numbers_[i], inputs.numbers[i])) {
      return false;
    }
  }
  return true;
}

const c10::TensorImpl& Tape::Given(size_t reg, const TapeInputs& inputs) const {
  const TapeRegister& given = registers_[reg];
  return given.origin == Origin::kInput
             ? *inputs.tensors[given.index].unsafeGetTensorImpl()
             : *given.foreign->_unsafe_get_target();
}

bool Tape::FitsContents(const TapeInputs& inputs) const {
  return std::ranges::all_of(contents_, [&](const TapeContent& read) {
    const TapeRegister& reg = registers_[static_cast<size_t>(read.reg)];
    if (reg.origin == Origin::kForeign && reg.foreign->use_count() == 0) {
      return true;
    }
    return SameContent(
        CopyHostTensor(Given(static_cast<size_t>(read.reg), inputs)),
        read.content);
  });
}

bool Tape::FitsTensors(const TapeInputs& inputs, Gone gone) const {
  if (inputs.tensors.size() != inputs_.size() || inputs.modes != modes_) {
    return false;
  }
  const auto fits = [this](const TapeRegister& reg,
                           const c10::TensorImpl& tensor) {
    const bool value_only =
        pass_ == TapePass::kForward && reg.origin == Origin::kInput;
    return (value_only ? reg.form.FitsValue(tensor)
                       : reg.form.Fits(tensor, reg.has_gradient)) &&
           ((!fixed_offsets_ && reg.origin == Origin::kInput) ||
            tensor.storage_offset() == reg.form.storage_offset);
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!fits(registers_[static_cast<size_t>(inputs_[i])],
              *inputs.tensors[i].unsafeGetTensorImpl())) {
      return false;
    }
  }
  if (!GivenAlike(inputs.tensors)) return false;
  std::vector<const c10::StorageImpl*> given;
  for (const at::Tensor& tensor : inputs.tensors) {
    given.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  std::ranges::sort(given);
  // Those in the memory of an input would have to be named as it is.
  if (gone == Gone::kMissed) {
    if (!foreign_.Hold(given)) return false;
  } else {
    for (const uint32_t index : given_.foreign) {
      const TapeRegister& reg = registers_[index];
      const WatchedTensor tensor{*reg.foreign, reg.form, reg.has_gradient};
      const bool is_gone = reg.foreign->use_count() == 0;
      if (is_gone ? !reg.content.defined() : !tensor.Holds(given)) return false;
    }
  }
  for (const uint32_t index : given_.gradients) {
    const TapeRegister& reg = registers_[index];
    const c10::TensorImpl* gradient = GradientOf(Given(reg.index, inputs));
    if (gradient == nullptr || !IsPlainTensor(*gradient) ||
        !fits(reg, *gradient)) {
      return false;
    }
  }
  // Python may ask whether one of them was given.
  const auto is_watched = [this](const at::Tensor& tensor) {
    return watched_.Has(tensor.unsafeGetTensorImpl());
  };
  return std::ranges::none_of(inputs.tensors, is_watched) && watched_.Hold();
}

bool Tape::GivenAlike(std::span<const at::Tensor> tensors) const {
  const auto alike = [&](auto part, auto expected) {
    std::vector<std::pair<const void*, uint32_t>> sorted;
    sorted.reserve(tensors.size());
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      sorted.emplace_back(part(*tensors[i].unsafeGetTensorImpl()), i);
    }
    std::ranges::sort(sorted);
    uint32_t first = 0;
    for (size_t k = 0; k < sorted.size(); ++k) {
      if (k == 0 || sorted[k].first != sorted[k - 1].first) {
        first = sorted[k].second;
      }
      if (expected(sorted[k].second) != first) return false;
    }
    return true;
  };
  return alike([](const c10::TensorImpl& tensor) { return &tensor; },
               [this](uint32_t i) {
                 return registers_[static_cast<size_t>(inputs_[i])].index;
               }) &&
         alike(
             [](const c10::TensorImpl& tensor) {
               return tensor.unsafe_storage().unsafeGetStorageImpl();
             },
             [this](uint32_t i) { return sharing_[i]; }) &&
         GivenAsFarApart(tensors);
}

bool Tape::GivenAsFarApart(std::span<const at::Tensor> tensors) const {
  const auto then = [this](uint32_t i) {
    return registers_[static_cast<size_t>(inputs_[i])].form.offset_bytes();
  };
  const auto now = [&tensors](uint32_t i) {
    return tensors[i].storage_offset() *
           static_cast<int64_t>(tensors[i].element_size());
  };
  const auto as_far = [&](uint32_t i, uint32_t j) {
    return now(i) - now(j) == then(i) - then(j);
  };
  for (uint32_t i = 0; fixed_distances_ && i < tensors.size(); ++i) {
    if (!as_far(i, sharing_[i])) return false;
  }
  return std::ranges::all_of(in_one_place_, [&](const auto& pair) {
    return as_far(pair.first, pair.second);
  });
}

const TapeCall* Tape::MakerOf(int32_t reg) const {
  const TapeRegister& of = registers_[static_cast<size_t>(reg)];
  return of.origin == Origin::kResult ? &calls_[of.index] : nullptr;
}

Tape::Used Tape::UsedBehind(size_t first, size_t end) const {
  Used used;
  std::vector<int32_t> left;
  std::unordered_set<int32_t> seen;
  std::set<size_t> views;
  const auto use = [&](int32_t reg) {
    if (reg < 0) return;
    const TapeRegister& of = registers_[static_cast<size_t>(reg)];
    if (of.origin == Origin::kResult && of.index >= first && of.index < end &&
        seen.insert(reg).second) {
      left.push_back(reg);
    }
  };
  for (size_t c = end; c < calls_.size(); ++c) {
    for (const TapeArgument& argument : calls_[c].arguments) {
      for (const int32_t reg : argument.registers) use(reg);
    }
    for (const int32_t reg : calls_[c].results) use(reg);
  }
  for (const int32_t reg : outputs_) use(reg);
  for (const TapeGradient& gradient : gradients_) use(gradient.after);
  while (!left.empty()) {
    const int32_t reg = left.back();
    left.pop_back();
    const size_t maker = registers_[static_cast<size_t>(reg)].index;
    if (calls_[maker].views) {
      views.insert(maker);
      use(calls_[maker].arguments[0].registers[0]);
    } else {
      used.results.insert(reg);
    }
  }
  used.views.assign(views.begin(), views.end());
  return used;
}

void Tape::NoteGiven() {
  given_ = {};
  foreign_ = {};
  std::erase_if(contents_, [this](const TapeContent& read) {
    return registers_[static_cast<size_t>(read.reg)].origin ==
           Origin::kConstant;
  });
  for (uint32_t reg = 0; reg < registers_.size(); ++reg) {
    const TapeRegister& given = registers_[reg];
    switch (given.origin) {
      case Origin::kInput:
        given_.inputs.push_back(reg);
        break;
      case Origin::kForeign:
        given_.foreign.push_back(reg);
        given_.tensors.push_back(*given.foreign);
        foreign_.Add({*given.foreign, given.form, given.has_gradient});
        break;
      case Origin::kGradient:
        given_.gradients.push_back(reg);
        break;
      case Origin::kConstant:
        given_.constants.push_back(reg);
        break;
      case Origin::kResult:
        break;
    }
  }
  tells_passes_ =
      pass_ == TapePass::kWhole && level_ == TapeLevel::kBelowAutograd &&
      given_.foreign.empty() &&
      std::ranges::none_of(calls_, &TapeCall::calls_python) &&
      std::ranges::count(calls_, false, &TapeCall::views) >= kFewestCallsToTell;
}

void Tape::NoteComputed(const std::vector<bool>& computed) {
  if (computed.empty()) {
    with_plain_floats_ = true;
    return;
  }
  with_noting_floats_ = true;
  computed_.resize(computed.size(), false);
  for (size_t i = 0; i < computed.size(); ++i) {
    computed_[i] = computed_[i] || computed[i];
  }
}

void Tape::NoteUses() {
  std::vector<int64_t> last(registers_.size(), -1);
  const auto keep = [&last](int32_t reg) {
    if (reg >= 0) last[static_cast<size_t>(reg)] = INT64_MAX;
  };
  for (const int32_t reg : outputs_) keep(reg);
  for (const TapeGradient& gradient : gradients_) {
    keep(static_cast<int32_t>(gradient.of));
    keep(gradient.after);
  }
  for (size_t c = 0; c < calls_.size(); ++c) {
    const auto use = [&](int32_t reg) {
      if (reg < 0) return;
      int64_t& at = last[static_cast<size_t>(reg)];
      at = std::max(at, static_cast<int64_t>(c));
    };
    for (const TapeArgument& argument : calls_[c].arguments) {
      for (const int32_t reg : argument.registers) use(reg);
    }
    for (const int32_t reg : calls_[c].results) use(reg);
  }
  for (size_t reg = 0; reg < last.size(); ++reg) {
    if (last[reg] < 0 || last[reg] == INT64_MAX) continue;
    calls_[static_cast<size_t>(last[reg])].last_uses.push_back(
        static_cast<int32_t>(reg));
  }
}

void Tape::NoteViews(std::span<const c10::StorageImpl* const> storages) {
  std::unordered_set<const c10::StorageImpl*> given;
  std::unordered_set<const c10::StorageImpl*> outside;
  for (size_t reg = 0; reg < storages.size(); ++reg) {
    const Origin origin = registers_[reg].origin;
    if (origin == Origin::kResult) continue;
    outside.insert(storages[reg]);
    // Where in them a view begins is another place in each call.
    if (origin != Origin::kForeign) given.insert(storages[reg]);
  }
  // Whoever looks at a version, or at what a tensor is a view of, must not meet
  // one that was made in another way.
  std::vector<bool> seen(registers_.size(), false);
  const auto hand_out = [&](int32_t reg) {
    if (reg < 0) return;
    seen[static_cast<size_t>(reg)] = true;
    outside.insert(storages[static_cast<size_t>(reg)]);
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const int32_t reg = outputs_[i];
    if (i < saved_from_) {
      hand_out(reg);
    } else {
      outside.insert(storages[static_cast<size_t>(reg)]);
    }
  }
  for (const TapeGradient& gradient : gradients_) hand_out(gradient.after);
  for (size_t reg = 0; reg < storages.size(); ++reg) {
    registers_[reg].outside =
        storages[reg] == nullptr || outside.contains(storages[reg]);
  }
  const c10::Storage nothing = at::detail::empty_cpu({0}, at::kByte).storage();
  for (size_t c = calls_.size(); c-- > 0;) {
    TapeCall& call = calls_[c];
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      if (!Writes(call.op, i)) continue;
      for (const int32_t reg : call.arguments[i].registers) {
        if (reg >= 0) seen[static_cast<size_t>(reg)] = true;
      }
    }
    call.views = GivesSameViews(call, c, storages, given);
    const auto made_by_form = [&](int32_t reg) {
      if (reg < 0) return true;
      const TapeRegister& result = registers_[static_cast<size_t>(reg)];
      return !seen[static_cast<size_t>(reg)] &&
             result.form.keys ==
                 MakeOver(nothing, result.form).key_set().raw_repr();
    };
    call.only_views =
        call.views && std::ranges::all_of(call.results, made_by_form);
    if (call.only_views) continue;
    // What it returns may be views of what it is given.
    for (const TapeArgument& argument : call.arguments) {
      for (const int32_t reg : argument.registers) {
        if (reg < 0) continue;
        const auto given_as = static_cast<size_t>(reg);
        seen[given_as] =
            seen[given_as] ||
            std::ranges::any_of(call.results, [&](int32_t result) {
              return result >= 0 && storages[static_cast<size_t>(result)] ==
                                        storages[given_as];
            });
      }
    }
  }
}

bool Tape::GivesSameViews(
    const TapeCall& call, size_t index,
    std::span<const c10::StorageImpl* const> storages,
    const std::unordered_set<const c10::StorageImpl*>& given) const {
  if (!GivesViews(call.op) || call.arguments[0].kind != Kind::kTensor ||
      call.arguments[0].wrapped || call.arguments[0].registers[0] < 0 ||
      std::ranges::any_of(call.arguments, [](const TapeArgument& argument) {
        return argument.kind == Kind::kNumber;
      })) {
    return false;
  }
  const auto of = static_cast<size_t>(call.arguments[0].registers[0]);
  return storages[of] != nullptr && !given.contains(storages[of]) &&
         std::ranges::all_of(call.results, [&](int32_t reg) {
           return reg < 0 ||
                  (registers_[static_cast<size_t>(reg)].origin ==
                       Origin::kResult &&
                   registers_[static_cast<size_t>(reg)].index == index &&
                   storages[static_cast<size_t>(reg)] == storages[of]);
         });
}

uint64_t ModesWord() {
  WordBuffer words;
  const auto add = [&words](uint64_t word) { words.Push(word); };
  add(at::GradMode::is_enabled());
  add(c10::InferenceMode::is_enabled());
  add(at::SavedTensorDefaultHooks::get_tls_state().stack.size());
  add(NodeHooks());
  for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
    const bool on = at::autocast::is_autocast_enabled(device);
    add(on);
    if (!on) continue;
    add(static_cast<uint64_t>(at::autocast::get_autocast_dtype(device)));
    add(at::autocast::is_autocast_cache_enabled());
  }
  AddAllSwitches(words);
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t word : words.span()) {
    hash = std::rotl((hash ^ word) * 0x9e3779b97f4a7c15, 29);
  }
  return hash;
}

bool IsOrdinary(std::span<const at::Tensor> tensors) {
  return !torch::autograd::AnomalyMode::is_enabled() && NodeHooks() == 0 &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         !at::impl::torch_function_mode_enabled() &&
         !torch::jit::tracer::isTracing() &&
         !c10::impl::tls_is_dispatch_key_included(
             c10::DispatchKey::FuncTorchDynamicLayerFrontMode) &&
         std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
           return tensor.defined() &&
                  IsPlainTensor(*tensor.unsafeGetTensorImpl());
         });
}

}  // namespace reprise::bindings
