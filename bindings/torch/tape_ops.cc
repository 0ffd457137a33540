#include "bindings/torch/tape_ops.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>

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

bool PicksByIndices(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name == "aten::index" || name == "aten::_unsafe_index";
}

}  // namespace

bool IsOfTools(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.starts_with("reprise::") || name.starts_with("profiler::");
}

bool Reads(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name == "aten::_local_scalar_dense" || name == "aten::item" ||
         name == "aten::equal" || name == "aten::is_nonzero";
}

bool HandsDataOut(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::data_dependent_output) || Reads(op);
}

bool SizesByData(const c10::OperatorHandle& op,
                 std::span<const c10::IValue> arguments) {
  const std::string& name = op.operator_name().name;
  return (op.hasTag(at::Tag::dynamic_output_shape) &&
          (!PicksByIndices(op) || HasMask(arguments))) ||
         name == "aten::_pack_padded_sequence" ||
         op.operator_name().overload_name == "tensor_indices_or_sections";
}

bool Draws(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

bool WritesSecretly(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.find("batch_norm") != std::string::npos ||
         name.find("instance_norm") != std::string::npos ||
         name.find("renorm") != std::string::npos;
}

bool TellsHowItDrew(const c10::OperatorHandle& op) {
  return op.operator_name().name.find("attention") != std::string::npos;
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

}  // namespace reprise::bindings
