#include "bindings/torch/region/tape_ops.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "bindings/torch/base/ivalues.h"
#include "bindings/torch/runtime/kept_generator.h"
#include "bindings/torch/runtime/kernel_state.h"
#include "bindings/torch/runtime/op_policy.h"

namespace reprise::bindings {
namespace {

// An index that is a mask says how many elements it picks.
bool HasMask(std::span<const c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (!argument.isList()) continue;
    for (const c10::IValue& element : argument.toListRef()) {
      if (!element.isTensor() || !element.toTensor().defined()) continue;
      const at::ScalarType dtype = element.toTensor().scalar_type();
      if (dtype == at::kBool || dtype == at::kByte) return true;
    }
  }
  return false;
}

// Of the form of its first argument, and of what it is told.
bool MakesAlike(const c10::OperatorHandle& op) {
  static constexpr std::string_view kNames[] = {
      "aten::empty_like", "aten::full_like",  "aten::new_empty",
      "aten::new_full",   "aten::new_ones",   "aten::new_zeros",
      "aten::ones_like",  "aten::rand_like",  "aten::randint_like",
      "aten::randn_like", "aten::zeros_like", "aten::new_empty_strided",
  };
  const c10::OperatorName& name = op.operator_name();
  return std::ranges::find(kNames, name.name) != std::end(kNames) ||
         (name.name == "aten::bernoulli" && name.overload_name == "p");
}

}  // namespace

bool IsOfTools(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.starts_with("reprise::") || name.starts_with("profiler::");
}

bool IsOfOthers(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return !name.starts_with("aten::") && !name.starts_with("prims::") &&
         !IsOfTools(op);
}

bool Reads(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name == "aten::_local_scalar_dense" || name == "aten::item" ||
         name == "aten::equal" || name == "aten::is_nonzero" ||
         // Of the memory that they are in.
         name == "aten::is_set_to" || name == "aten::is_pinned";
}

bool HandsDataOut(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::data_dependent_output) || Reads(op);
}

bool PicksByIndices(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name == "aten::index" || name == "aten::_unsafe_index";
}

bool SizesByData(const c10::OperatorHandle& op,
                 std::span<const c10::IValue> arguments) {
  return op.hasTag(at::Tag::dynamic_output_shape) &&
         (!PicksByIndices(op) || HasMask(arguments));
}

bool DecidesByValues(const c10::OperatorHandle& op, size_t argument) {
  struct Row {
    std::string_view name;
    std::string_view argument;
  };
  static constexpr Row kRows[] = {
      // Steps and sequences of a batch.
      {"aten::_pack_padded_sequence", "lengths"},
      {"aten::_pack_padded_sequence_backward", "batch_sizes"},
      {"aten::_pad_packed_sequence", "batch_sizes"},
      {"aten::gru", "batch_sizes"},
      {"aten::lstm", "batch_sizes"},
      {"aten::quantized_gru", "batch_sizes"},
      {"aten::quantized_lstm", "batch_sizes"},
      {"aten::rnn_relu", "batch_sizes"},
      {"aten::rnn_tanh", "batch_sizes"},
      {"aten::_cudnn_ctc_loss", "input_lengths"},
      {"aten::_cudnn_ctc_loss", "target_lengths"},
      {"aten::_ctc_loss", "input_lengths"},
      {"aten::_ctc_loss", "target_lengths"},
      {"aten::_ctc_loss_backward", "input_lengths"},
      {"aten::_ctc_loss_backward", "target_lengths"},
      {"aten::_use_cudnn_ctc_loss", "input_lengths"},
      {"aten::_use_cudnn_ctc_loss", "target_lengths"},
      {"aten::ctc_loss", "input_lengths"},
      {"aten::ctc_loss", "target_lengths"},
      // Where it is split.
      {"aten::tensor_split", "tensor_indices_or_sections"},
      // How large the result is, where no size is given.
      {"aten::_unique", "self"},
      {"aten::sparse_coo_tensor", "indices"},
  };
  const c10::Argument& of = op.schema().arguments()[argument];
  return of.type()->kind() == c10::TypeKind::TensorType &&
         std::ranges::any_of(kRows, [&](const Row& row) {
           return row.name == op.operator_name().name &&
                  row.argument == of.name();
         });
}

bool DecidesByValues(const c10::OperatorHandle& op) {
  for (size_t i = 0; i < op.schema().arguments().size(); ++i) {
    if (DecidesByValues(op, i)) return true;
  }
  return false;
}

bool Draws(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

bool DrawsForGood(const c10::OperatorHandle& op,
                  std::span<const c10::IValue> arguments) {
  if (!Draws(op)) return false;
  const std::string& name = op.operator_name().name;
  if (!name.starts_with("aten::")) return true;
  static constexpr std::string_view kKeepTheirOwn[] = {
      "rnn", "lstm", "gru", "_cudnn_init_dropout_state"};
  return std::ranges::any_of(kKeepTheirOwn,
                             [&name](std::string_view part) {
                               return name.find(part) != std::string::npos;
                             }) ||
         std::ranges::any_of(arguments, [](const c10::IValue& argument) {
           return argument.isGenerator() &&
                  !KeptGenerator::MayKeep(argument.toGenerator());
         });
}

bool WritesSecretly(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.find("batch_norm") != std::string::npos ||
         name.find("instance_norm") != std::string::npos ||
         name.find("renorm") != std::string::npos;
}

bool IsOff(const c10::OperatorHandle& op,
           std::span<const c10::IValue> arguments) {
  if (!op.operator_name().name.starts_with("aten::")) return false;
  const auto& schema = op.schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i) {
    const std::string& name = schema[i].name();
    const c10::IValue& value = arguments[i];
    if (name == "dropout_p" && value.isDouble() && value.toDouble() == 0 &&
        !std::signbit(value.toDouble())) {
      return true;
    }
    const bool trains =
        name == "train" || name == "training" || name == "use_input_stats";
    if (trains && value.isBool() && !value.toBool()) return true;
  }
  return false;
}

bool MayRaise(const c10::OperatorHandle& op,
              std::span<const c10::IValue> arguments) {
  const std::string& name = op.operator_name().name;
  if (!name.starts_with("aten::")) return true;
  // MAGMA and cuSOLVER have the host wait in ways of their own.
  const std::string_view base = std::string_view(name).substr(6);
  if (base.starts_with("linalg_") || base.starts_with("_linalg_")) return true;
  if (RunsProgramsKernel(op.operator_name())) return true;
  bool of_gpu = false;
  bool of_host = false;
  bool number = false;
  ForTensors(arguments, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    of_gpu |= tensor.is_cuda();
    number |= !tensor.is_cuda() && tensor.dim() == 0;
    of_host |= !tensor.is_cuda() && tensor.dim() > 0;
  });
  return of_host || (number && !of_gpu);
}

bool IsProbability(const c10::OperatorHandle& op, size_t argument) {
  const std::string& name = op.schema().arguments()[argument].name();
  return Draws(op) && (name == "p" || name.starts_with("dropout"));
}

bool OnlyCopies(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return Reads(op) || name == "aten::copy_" || name == "aten::_to_copy" ||
         name == "aten::to" || name == "aten::clone";
}

bool DoesNothing(const c10::OperatorHandle& op) {
  return op.operator_name().name == "aten::detach_";
}

bool TellsHowItDrew(const c10::OperatorHandle& op) {
  return op.operator_name().name.find("attention") != std::string::npos;
}

std::optional<AutocastState> AutocastOf(const c10::OperatorHandle& op) {
  const AutocastState now = AutocastState::Now();
  const bool may_ask =
      now.any() && (SwitchesOf(op.operator_name().name) & kMatmulSwitches) != 0;
  return may_ask ? std::optional(now) : std::nullopt;
}

bool LeavesUnwritten(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

bool Writes(const c10::OperatorHandle& op, size_t argument) {
  const c10::AliasInfo* alias = op.schema().arguments()[argument].alias_info();
  return alias != nullptr && alias->isWrite();
}

bool GivesViews(const c10::OperatorHandle& op) {
  if (op.operator_name().name == "aten::_unsafe_view") return true;
  const auto& arguments = op.schema().arguments();
  const auto views = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr &&
           !argument.alias_info()->isWrite();
  };
  return !arguments.empty() && views(arguments[0]) &&
         arguments[0].type()->kind() == c10::TypeKind::TensorType &&
         std::none_of(arguments.begin() + 1, arguments.end(), views) &&
         std::ranges::none_of(arguments, &c10::Argument::is_out) &&
         std::ranges::all_of(op.schema().returns(), views) &&
         !op.schema().returns().empty();
}

bool ReadsOnlyForm(const c10::OperatorHandle& op,
                   std::span<const c10::IValue> arguments, size_t argument) {
  if (RunsProgramsKernel(op.operator_name())) return false;
  if (argument == 0 && (GivesViews(op) || MakesAlike(op))) return true;
  // Each gradient is of two of the three; torch.func gives memory that nobody
  // has written in the place of the third one.
  if (op.operator_name().name != "aten::convolution_backward") return false;
  const auto& schema = op.schema().arguments();
  const c10::IValue& mask = arguments.back();
  if (!mask.isBoolList() || mask.toBoolList().size() != 3) return false;
  const std::string& name = schema[argument].name();
  return (name == "weight" && !mask.toBoolList()[0]) ||
         (name == "input" && !mask.toBoolList()[1]);
}

}  // namespace reprise::bindings
