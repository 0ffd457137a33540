// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard00(HookRegistrar& hooks) {
  hooks.Add<at::_ops::_linalg_slogdet_sign>();
  hooks.Add<at::_ops::_batch_norm_with_update_out>();
  hooks.Add<at::_ops::linalg_lstsq_out>();
  hooks.Add<at::_ops::_linalg_solve_ex_result>();
  hooks.Add<at::_ops::cudnn_batch_norm_out>();
  hooks.Add<at::_ops::_linalg_det_result>();
  hooks.Add<at::_ops::linalg_lu_out>();
  hooks.Add<at::_ops::_linalg_svd_U>();
  hooks.Add<at::_ops::linalg_ldl_factor_ex_out>();
  hooks.Add<at::_ops::linalg_lu_factor_ex_out>();
  hooks.Add<at::_ops::_native_batch_norm_legit_out>();
  hooks.Add<at::_ops::_native_batch_norm_legit_no_stats_out>();
  hooks.Add<at::_ops::native_batch_norm_out>();
  hooks.Add<at::_ops::lu_unpack_out>();
  hooks.Add<at::_ops::_slow_conv2d_backward_grad_input>();
  hooks.Add<at::_ops::sort_values_stable>();
  hooks.Add<at::_ops::aminmax_out>();
  hooks.Add<at::_ops::max_pool2d_with_indices_out>();
  hooks.Add<at::_ops::max_pool3d_with_indices_out>();
  hooks.Add<at::_ops::fractional_max_pool2d_output>();
  hooks.Add<at::_ops::fractional_max_pool3d_output>();
  hooks.Add<at::_ops::adaptive_max_pool2d_out>();
  hooks.Add<at::_ops::adaptive_max_pool3d_out>();
  hooks.Add<at::_ops::frexp_Tensor_out>();
  hooks.Add<at::_ops::geqrf_a>();
  hooks.Add<at::_ops::linalg_eig_out>();
  hooks.Add<at::_ops::log_sigmoid_forward_output>();
  hooks.Add<at::_ops::linalg_inv_ex_inverse>();
  hooks.Add<at::_ops::linalg_cholesky_ex_L>();
  hooks.Add<at::_ops::kthvalue_values>();
  hooks.Add<at::_ops::topk_values>();
  hooks.Add<at::_ops::linalg_qr_out>();
  hooks.Add<at::_ops::_linalg_eigh_eigenvalues>();
  hooks.Add<at::_ops::triangular_solve_X>();
  hooks.Add<at::_ops::histogram_bins_tensor_out>();
  hooks.Add<at::_ops::nll_loss2d_forward_output>();
  hooks.Add<at::_ops::nll_loss_forward_output>();
  hooks.Add<at::_ops::multilabel_margin_loss_forward_output>();
  hooks.Add<at::_ops::histogram_bin_ct_out>();
  hooks.Add<at::_ops::cummax_out>();
  hooks.Add<at::_ops::cummin_out>();
  hooks.Add<at::_ops::max_dim_max>();
  hooks.Add<at::_ops::median_dim_values>();
  hooks.Add<at::_ops::min_dim_min>();
  hooks.Add<at::_ops::mode_values>();
  hooks.Add<at::_ops::nanmedian_dim_values>();
  hooks.Add<at::_ops::sort_values>();
  hooks.Add<at::_ops::_cudnn_rnn_backward>();
  hooks.Add<at::_ops::_cudnn_rnn>();
  hooks.Add<at::_ops::_thnn_fused_gru_cell_backward>();
  hooks.Add<at::_ops::_flash_attention_forward>();
}

}  // namespace reprise::bindings
