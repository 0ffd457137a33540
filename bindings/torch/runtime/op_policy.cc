// Larger than its limit: tables of torch's operators, and a function for each.

#include "bindings/torch/runtime/op_policy.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <utility>

#include "bindings/torch/base/cufft_plans.h"
#include "bindings/torch/base/name_list.h"
#include "bindings/torch/runtime/trapping_ops.h"

namespace reprise::bindings {
namespace {

using std::string_view_literals::operator""sv;

// Operators that only look at metadata, or make views without saying so; for
// record_stream see lent_memory.cc.
constexpr std::array kNotHooked = {
    "aten::_assert_scalar"sv,
    "aten::_assert_tensor_metadata"sv,
    "aten::_functional_assert_scalar"sv,
    "aten::_functional_sym_constrain_range"sv,
    "aten::_functional_sym_constrain_range_for_size"sv,
    "aten::_has_same_storage_numel"sv,
    "aten::_print"sv,
    "aten::_unsafe_view"sv,
    "aten::_use_cudnn_ctc_loss"sv,
    "aten::dense_dim"sv,
    "aten::is_coalesced"sv,
    "aten::is_pinned"sv,
    "aten::is_same_size"sv,
    "aten::is_set_to"sv,
    "aten::lift"sv,
    "aten::record_stream"sv,
    "aten::sparse_dim"sv,
    "aten::sym_constrain_range"sv,
    "aten::sym_constrain_range_for_size"sv,
};

// Namespaces whose operators are for tools, or run the program's own code.
constexpr std::array kNamespacesNotHooked = {
    "prim"sv,  "prims"sv,    "profiler"sv,     "debugprims"sv, "rngprims"sv,
    "_test"sv, "inductor"sv, "higher_order"sv, "reprise"sv,    "streams"sv,
};

// Namespaces whose operators work on streams of their own.
constexpr std::array kNamespacesCut = {
    "c10d"sv,     "_c10d_functional"sv, "_c10d_functional_autograd"sv,
    "_dtensor"sv, "symm_mem"sv,         "fsdp"sv,
    "rpc"sv,
};

// In-place on metadata, which is a view, but also on storage, which is not.
constexpr std::array kStorageOps = {
    "aten::resize_"sv,
    "aten::resize_as_"sv,
    "aten::set_"sv,
};

// What arguments of attention's backward pass are called that tell what its
// forward pass has drawn.
constexpr std::array kSeedArguments = {"philox_seed"sv, "philox_offset"sv};

// Parts of names of torch's own whose kernels may add by atomic additions, or
// as their blocks come.
constexpr std::array kAddAsTheyCome = {
    "_backward"sv,    "scatter"sv,       "index_add"sv, "index_put"sv,
    "aten::put"sv,    "index_reduce"sv,  "cumsum"sv,    "cumprod"sv,
    "logcumsumexp"sv, "embedding_bag"sv, "bincount"sv,  "histc"sv,
};

// WritesPastOperators. tests/python/registry/raw_writes.py finds them.
constexpr std::array kWritePastOperators = {
    "aten::_sobol_engine_ff_"sv,
    "aten::_sobol_engine_initialize_state_"sv,
    "aten::_sobol_engine_scramble_"sv,
};

struct NamedCut {
  std::string_view name;
  const char* reason;
};
constexpr NamedCut kCuts[] = {
    {"aten::_assert_async"sv, "may stop the device"},
    {"aten::_copy_from"sv, "copies by hand"},
    {"aten::_copy_from_and_resize"sv, "copies by hand"},
    {"aten::_cudnn_rnn_flatten_weight"sv, "moves its operands"},
    {"aten::_cudnn_init_dropout_state"sv, "keeps a generator of its own"},
    {"aten::_efficientzerotensor"sv, "makes a tensor without memory"},
    {"aten::_fused_moving_avg_obs_fq_helper"sv, "its effects depend on data"},
    {"aten::_lazy_clone"sv, "copies on write"},
    {"aten::_linalg_check_errors"sv, "hands data to the host"},
    {"aten::_local_scalar_dense"sv, "hands data to the host"},
    {"aten::_pin_memory"sv, "pins host memory"},
    {"aten::_resize_output"sv, "changes a storage"},
    {"aten::_resize_output_"sv, "changes a storage"},
    {"aten::as_strided_copy"sv, "depends on the storage offset"},
    {"aten::as_strided_scatter"sv, "depends on the storage offset"},
    // These clone the whole storage that their operand lies in.
    {"aten::copy"sv, "depends on the storage behind its operand"},
    {"aten::diagonal_scatter"sv, "depends on the storage behind its operand"},
    {"aten::select_scatter"sv, "depends on the storage behind its operand"},
    {"aten::slice_scatter"sv, "depends on the storage behind its operand"},
    {"aten::embedding_renorm_"sv, "its effects depend on data"},
    {"aten::equal"sv, "hands data to the host"},
    {"aten::from_file"sv, "maps a file"},
    {"aten::mkldnn_rnn_layer_backward"sv, "writes operands in secret"},
    {"aten::resize_"sv, "changes a storage"},
    {"aten::resize_as_"sv, "changes a storage"},
    {"aten::set"sv, "takes a storage"},
    {"aten::set_"sv, "changes a storage"},
};

// Results that are all host values follow from data, as a rule. Here from
// shapes, switches and what requires gradients (OpInfo::asks_gradients).
constexpr std::array kHostResultsFromShapes = {"aten::_fused_sdp_choice"sv};

// Operators that write operands whose schema does not say so, as bits of their
// arguments, when the bool argument `training` is true (-1: always).
struct HiddenWrites {
  std::string_view name;
  uint64_t arguments;
  int training;
};
constexpr HiddenWrites kHiddenWrites[] = {
    {"aten::native_batch_norm"sv, 1 << 3 | 1 << 4, 5},
    {"aten::cudnn_batch_norm"sv, 1 << 3 | 1 << 4, 5},
    {"aten::miopen_batch_norm"sv, 1 << 3 | 1 << 4, 5},
    // The state of its dropout; backward also uses its reserve for scratch.
    {"aten::_cudnn_rnn"sv, 1 << 15, -1},
    {"aten::_cudnn_rnn_backward"sv, 1 << 19 | 1 << 20, -1},
    {"aten::batch_norm_gather_stats"sv, 1 << 3 | 1 << 4, -1},
    {"aten::batch_norm_gather_stats_with_counts"sv, 1 << 3 | 1 << 4, -1},
    {"aten::batch_norm_update_stats"sv, 1 << 1 | 1 << 2, -1},
};

// OpInfo::by_storages. What it makes lies in a storage as large as the one that
// its operand lies in.
constexpr std::array kByStorages = {
    "aten::_foreach_copy"sv,
    "aten::_new_zeros_with_same_feature_meta"sv,
};

// OpView::leaves_unwritten, without prefixes.
constexpr std::array kWithoutContent = {
    "empty"sv,         "empty_like"sv, "empty_permuted"sv,
    "empty_strided"sv, "new_empty"sv,  "new_empty_strided"sv,
};

// Operators that look at the form of their first argument alone.
bool MakesAnotherLikeIt(std::string_view plain) {
  return plain.ends_with("_like"sv) || plain.starts_with("new_"sv);
}

// They add their first argument times `beta`, and do not read it if that is 0.
constexpr std::array kWithBeta = {
    "addmm"sv, "_addmm_activation"sv,    "addmv"sv, "addbmm"sv, "baddbmm"sv,
    "addr"sv,  "sparse_sampled_addmm"sv,
};

// Operators of cuDNN, which forks streams of its own (layers and directions of
// recurrent networks, some engines of convolutions) and joins them; they belong
// to a handle, which one thread uses at a time.
constexpr std::array kForkStreams = {"aten::_convolution"sv,
                                     "aten::_cudnn_rnn"sv,
                                     "aten::_cudnn_rnn_backward"sv,
                                     "aten::convolution"sv,
                                     "aten::convolution_backward"sv,
                                     "aten::cudnn_convolution"sv,
                                     "aten::cudnn_convolution_add_relu"sv,
                                     "aten::cudnn_convolution_relu"sv,
                                     "aten::cudnn_convolution_transpose"sv};

// Operators whose kernels take numbers by value and make nothing else of them.
// Those that write over an operand have a name that ends in '_', those on lists
// of tensors one that begins with "_foreach_". Not here, among others: what
// hands them to a library (addmm), computes with them on the host (linspace,
// elu), compares them with each other (histc) or copies them to the device
// (where).
constexpr std::array kNumbersByValue = {
    "add"sv,       "addcdiv"sv,      "addcmul"sv,     "clamp"sv,
    "clamp_max"sv, "clamp_min"sv,    "div"sv,         "eq"sv,
    "fill"sv,      "floor_divide"sv, "fmod"sv,        "full"sv,
    "full_like"sv, "ge"sv,           "gt"sv,          "le"sv,
    "lerp"sv,      "lt"sv,           "masked_fill"sv, "mul"sv,
    "ne"sv,        "new_full"sv,     "pow"sv,         "remainder"sv,
    "rsub"sv,      "sub"sv,
};

// Those of them that pick no kernel by 0.5, 1, 2 or 3, to which numbers come
// near that an optimizer makes of its steps.
constexpr std::array kDecidingNothing = {"addcdiv"sv, "div"sv, "mul"sv};

// Operators whose kernels take attributes of type double by value as well, and
// that pick none by them.
constexpr std::array kDoublesByValue = {
    "aten::_fused_adagrad_"sv,
    "aten::_fused_adam_"sv,
    "aten::_fused_adamw_"sv,
    "aten::_fused_sgd_"sv,
};

// A class of switches is read by operators whose name holds one of these.
struct NamedSwitches {
  std::string_view part;
  uint8_t classes;
};
constexpr NamedSwitches kSwitches[] = {
    {"mm"sv, kMatmulSwitches},
    {"matmul"sv, kMatmulSwitches},
    {"mv"sv, kMatmulSwitches},
    {"dot"sv, kMatmulSwitches},
    {"linear"sv, kMatmulSwitches},
    {"einsum"sv, kMatmulSwitches},
    {"addr"sv, kMatmulSwitches},
    {"cdist"sv, kMatmulSwitches},
    {"euclidean"sv, kMatmulSwitches},
    {"multi_head"sv, kMatmulSwitches | kAttentionSwitches},
    {"transformer"sv, kMatmulSwitches | kAttentionSwitches},
    {"attention"sv, kMatmulSwitches | kAttentionSwitches},
    {"sdp"sv, kMatmulSwitches | kAttentionSwitches},
    {"conv"sv, kMatmulSwitches | kConvolutionSwitches},
    {"batch_norm"sv, kCudnnSwitches},
    {"grid"sv, kMatmulSwitches | kCudnnSwitches},
    {"ctc_loss"sv, kMatmulSwitches | kCudnnSwitches},
    {"cudnn"sv, kCudnnSwitches},
    {"rnn"sv, kMatmulSwitches | kRnnSwitches},
    {"lstm"sv, kMatmulSwitches | kRnnSwitches},
    {"gru"sv, kMatmulSwitches | kRnnSwitches},
    {"linalg"sv, kMatmulSwitches | kLinalgSwitches},
    {"cholesky"sv, kMatmulSwitches | kLinalgSwitches},
    {"ormqr"sv, kMatmulSwitches | kLinalgSwitches},
    {"orgqr"sv, kMatmulSwitches | kLinalgSwitches},
    {"geqrf"sv, kMatmulSwitches | kLinalgSwitches},
    {"triangular_solve"sv, kMatmulSwitches | kLinalgSwitches},
    {"lu_"sv, kMatmulSwitches | kLinalgSwitches},
    {"inverse"sv, kMatmulSwitches | kLinalgSwitches},
};

std::string_view Namespace(std::string_view name) {
  return name.substr(0, name.find("::"));
}

bool HoldsTensor(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
      return HoldsTensor(type->containedType(0));
    default:
      return false;
  }
}

bool ReturnsView(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) {
                       return result.alias_info() != nullptr &&
                              !result.alias_info()->isWrite();
                     });
}

// What an operator's kernels for devices are.
enum class Kernels : uint8_t {
  kTyped,   // compiled code, for arguments of the types of its schema
  kBoxed,   // some are compiled code for a stack of whatever values there are
  kPython,  // some are Python's
};

bool IsCompiled(std::string_view file) {
  constexpr std::array kSuffixes = {".c"sv,   ".cc"sv,  ".cpp"sv, ".cxx"sv,
                                    ".c++"sv, ".C"sv,   ".cu"sv,  ".h"sv,
                                    ".hh"sv,  ".hpp"sv, ".hxx"sv, ".cuh"sv,
                                    ".inc"sv, ".inl"sv, ".ipp"sv, ".hip"sv};
  return std::ranges::any_of(kSuffixes, [file](std::string_view suffix) {
    return file.ends_with(suffix);
  });
}

// By what torch says of each: "CPU: registered at FILE:LINE :: (TYPES) ...".
// Kernels for boxed values have no types, and Python's are of that kind.
Kernels KernelsOf(const c10::OperatorHandle& op) {
  if (op.schema().name().starts_with("aten::")) return Kernels::kTyped;
  Kernels kernels = Kernels::kTyped;
  std::istringstream lines(op.dumpState());
  for (std::string text; std::getline(lines, text);) {
    const std::string_view line = text;
    const bool device = line.starts_with("CPU:") || line.starts_with("CUDA:") ||
                        line.starts_with("CompositeExplicitAutograd");
    const size_t types = line.rfind(" :: ");
    if (!device || types == std::string_view::npos ||
        !line.substr(types).starts_with(" :: (none)")) {
      continue;
    }
    const std::string_view place = line.substr(0, types);
    if (!IsCompiled(place.substr(0, place.rfind(':')))) return Kernels::kPython;
    kernels = Kernels::kBoxed;
  }
  return kernels;
}

// For one of them or for all: it is not made of other operators alone.
bool HasKernelForDevices(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::CUDA) ||
         op.hasKernelForDispatchKey(DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(
             DispatchKey::CompositeExplicitAutogradNonFunctional);
}

const char* CutReason(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view name = schema.name();
  if (Contains(kNamespacesCut, Namespace(name))) {
    return "works on streams of its own";
  }
  for (const NamedCut& cut : kCuts) {
    if (cut.name == name) return cut.reason;
  }
  if (op.hasTag(at::Tag::data_dependent_output))
    return "hands data to the host";
  // Of indices, only masks have shapes that depend on data (encode.cc).
  if (op.hasTag(at::Tag::dynamic_output_shape) && name != "aten::index") {
    return "the shape of its result depends on data";
  }
  const bool any_tensor = std::any_of(
      schema.returns().begin(), schema.returns().end(),
      [](const c10::Argument& result) { return HoldsTensor(result.type()); });
  if (!schema.returns().empty() && !any_tensor &&
      !Contains(kHostResultsFromShapes, name)) {
    return "returns host data";
  }
  if (KernelsOf(op) == Kernels::kBoxed) {
    return "its kernel does not say what it takes";
  }
  return nullptr;
}

// "mul" of "aten::mul", "aten::mul_", "aten::_foreach_mul" and so on.
std::string_view Plain(std::string_view name) {
  constexpr std::string_view kPrefix = "aten::";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  constexpr std::string_view kOfLists = "_foreach_";
  if (name.starts_with(kOfLists)) name.remove_prefix(kOfLists.size());
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool MayUseGenerator(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return true;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (argument.name() == "generator") return true;
    if (argument.name() == "dropout_p") return true;
  }
  // In training they drop out.
  const std::string& name = op.schema().name();
  return name.find("dropout") != std::string::npos ||
         name.find("_cudnn_rnn") != std::string::npos;
}

// Which of the Tensor& arguments each reference result is, by alias sets.
std::array<uint8_t, OpInfo::kMaxReferences> References(
    const c10::FunctionSchema& schema) {
  std::array<uint8_t, OpInfo::kMaxReferences> references{};
  for (size_t r = 0; r < schema.returns().size() && r < references.size();
       ++r) {
    const c10::AliasInfo* result = schema.returns()[r].alias_info();
    if (result == nullptr) continue;
    uint8_t ordinal = 0;
    for (const c10::Argument& argument : schema.arguments()) {
      const c10::AliasInfo* alias = argument.alias_info();
      if (alias == nullptr || !alias->isWrite() ||
          argument.type()->kind() != c10::TypeKind::TensorType) {
        continue;
      }
      if (alias->beforeSets() == result->beforeSets()) references[r] = ordinal;
      ++ordinal;
    }
  }
  return references;
}

}  // namespace

std::string FullName(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name
                                    : name.name + "." + name.overload_name;
}

bool MayBeHooked(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view name = schema.name();
  if (Contains(kNotHooked, name) ||
      Contains(kNamespacesNotHooked, Namespace(name))) {
    return false;
  }
  if (!Contains(kStorageOps, name) &&
      (ReturnsView(schema) || op.hasTag(at::Tag::inplace_view))) {
    return false;
  }
  return KernelsOf(op) != Kernels::kPython && HasKernelForDevices(op);
}

bool HasKernel(const c10::OperatorHandle& op) {
  return HasKernelForDevices(op) ||
         op.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeImplicitAutograd);
}

bool MayDecideByNumbers(const c10::OperatorHandle& op) {
  static constexpr std::string_view kHandOn[] = {
      "aten::clip",      "aten::clip_",       "aten::divide",
      "aten::divide_",   "aten::greater",     "aten::greater_equal",
      "aten::less",      "aten::less_equal",  "aten::multiply",
      "aten::multiply_", "aten::not_equal",   "aten::subtract",
      "aten::subtract_", "aten::true_divide", "aten::true_divide_",
      "aten::where"};
  return !HasKernelForDevices(op) &&
         std::ranges::find(kHandOn, op.operator_name().name) ==
             std::end(kHandOn);
}

bool WritesPastOperators(const c10::OperatorHandle& op) {
  return Contains(kWritePastOperators, op.schema().name()) &&
         op.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeImplicitAutograd);
}

std::span<const std::string_view> NamesThatWritePastOperators() {
  return kWritePastOperators;
}

bool MayRunBeside(std::string_view name) {
  return name.starts_with("aten::") &&
         std::ranges::none_of(kAddAsTheyCome, [name](std::string_view part) {
           return name.find(part) != std::string_view::npos;
         });
}

uint8_t SwitchesOf(std::string_view name) {
  uint8_t switches = kNoSwitches;
  for (const NamedSwitches& named : kSwitches) {
    if (name.find(named.part) != std::string_view::npos) {
      switches |= named.classes;
    }
  }
  return switches;
}

OpInfo DescribeOp(const c10::OperatorHandle& op, bool factory) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view name = schema.name();
  OpInfo info{.name = FullName(op.operator_name()), .handle = op};
  info.factory = factory;
  info.cut = CutReason(op);
  info.effects.writes_unknown = Namespace(name) != "aten"sv;
  info.effects.may_use_generator = MayUseGenerator(op);
  info.effects.forks_streams = Contains(kForkStreams, name);
  info.effects.leaves_unwritten = Contains(kWithoutContent, Plain(name));
  info.effects.may_use_cufft = MayUseCufft(name);
  info.traps.always = MayTrap(schema);
  info.by_storages = Contains(kByStorages, name);
  info.asks_gradients = Contains(kHostResultsFromShapes, name);
  info.by_value.doubles = Contains(kDoublesByValue, name);
  info.by_value.scalars =
      info.by_value.doubles || Contains(kNumbersByValue, Plain(name));
  if (info.by_value.doubles || Contains(kDecidingNothing, Plain(name))) {
    info.by_value.decide = engine::Decides::kNothing;
  }
  info.references = References(schema);
  if (MakesAnotherLikeIt(Plain(name))) info.unread.always = 1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      info.written.by_schema |= uint64_t{1} << i;
    }
    if (schema.arguments()[i].name() == "non_blocking") {
      info.non_blocking_argument = static_cast<int>(i);
    }
    if (Contains(kSeedArguments, schema.arguments()[i].name())) {
      info.seeds.arguments |= uint64_t{1} << i;
    }
    if (schema.arguments()[i].name() == "beta" &&
        Contains(kWithBeta, Plain(name))) {
      info.unread.if_zero = 1;
      info.unread.zero_argument = static_cast<int>(i);
    }
    if (schema.arguments()[i].name() == "dropout_p") {
      info.seeds.dropout_argument = static_cast<int>(i);
    }
    if (HoldsIndices(schema.arguments()[i])) {
      info.traps.index_arguments |= uint64_t{1} << i;
    }
  }
  info.copies_from_host =
      name == "aten::_to_copy" && info.written.by_schema == 0;
  for (const HiddenWrites& hidden : kHiddenWrites) {
    if (hidden.name != name) continue;
    info.written.hidden = hidden.arguments;
    info.written.training_argument = hidden.training;
  }
  info.switches = SwitchesOf(name);
  info.completed = info.written.hidden != 0 || info.unread.any() ||
                   info.seeds.arguments != 0 || info.effects.may_use_cufft ||
                   info.by_storages;
  return info;
}

}  // namespace reprise::bindings
