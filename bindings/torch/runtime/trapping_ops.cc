#include "bindings/torch/runtime/trapping_ops.h"

#include <array>
#include <string_view>

#include "bindings/torch/base/name_list.h"

namespace reprise::bindings {
namespace {

using std::string_view_literals::operator""sv;

// What such arguments are called.
constexpr std::array kIndexArguments = {
    "index"sv,       "indices"sv,        "target"sv,       "targets"sv,
    "offsets"sv,     "offs"sv,           "offset2bag"sv,   "repeats"sv,
    "lengths"sv,     "batch_sizes"sv,    "sorter"sv,       "pivots"sv,
    "LU_pivots"sv,   "compressed_idx"sv, "plain_idx"sv,    "crow_indices"sv,
    "col_indices"sv, "ccol_indices"sv,   "row_indices"sv,  "cum_seq_q"sv,
    "cum_seq_k"sv,   "cu_seqlens_q"sv,   "cu_seqlens_k"sv, "seqlen_k"sv,
    "seqused_k"sv,   "block_table"sv,
};

// Whose kernels check other data, or have places under another name.
constexpr std::array kMayTrap = {
    "aten::binary_cross_entropy"sv,
    "aten::binary_cross_entropy_backward"sv,
    "aten::masked_scatter"sv,
    "aten::masked_scatter_"sv,
    "aten::multi_margin_loss"sv,
    "aten::multi_margin_loss_backward"sv,
    "aten::multilabel_margin_loss_forward"sv,
    "aten::multilabel_margin_loss_backward"sv,
    "aten::multinomial"sv,
    "aten::segment_reduce"sv,
    "aten::_segment_reduce_backward"sv,
    "aten::_ctc_loss"sv,
    "aten::_ctc_loss_backward"sv,
    "aten::poisson"sv,
    "aten::_convert_indices_from_coo_to_csr"sv,
};

// The same, of operators whose other overloads check nothing.
constexpr std::array kOverloadsThatMayTrap = {
    "aten::bernoulli"sv,
    "aten::bernoulli.out"sv,
    "aten::bernoulli.Tensor"sv,
    "aten::bernoulli.Tensor_out"sv,
    "aten::bernoulli_.Tensor"sv,
    "aten::normal.float_Tensor"sv,
    "aten::normal.float_Tensor_out"sv,
    "aten::normal.Tensor_Tensor"sv,
    "aten::normal.Tensor_Tensor_out"sv,
};

}  // namespace

bool MayTrap(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return !name.starts_with("aten::") || Contains(kMayTrap, name) ||
         Contains(kOverloadsThatMayTrap, c10::toString(schema.operator_name()));
}

bool HoldsIndices(const c10::Argument& argument) {
  return Contains(kIndexArguments, argument.name());
}

}  // namespace reprise::bindings
