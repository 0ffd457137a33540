// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard02(HookRegistrar& hooks) {
  hooks.Add<at::_ops::_thnn_fused_lstm_cell>();
  hooks.Add<at::_ops::batch_norm_backward>();
  hooks.Add<at::_ops::cudnn_batch_norm_backward>();
  hooks.Add<at::_ops::native_group_norm_backward>();
  hooks.Add<at::_ops::_scaled_dot_product_flash_attention_backward>();
  hooks.Add<at::_ops::_flash_attention_backward>();
  hooks.Add<at::_ops::_cudnn_attention_backward>();
  hooks.Add<at::_ops::_scaled_dot_product_cudnn_attention_backward>();
  hooks.Add<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>();
  hooks.Add<at::_ops::_fake_quantize_learnable_per_tensor_affine_backward>();
  hooks.Add<at::_ops::_fake_quantize_learnable_per_channel_affine_backward>();
  hooks.Add<at::_ops::_transform_bias_rescale_qkv>();
  hooks.Add<at::_ops::unique_dim_consecutive>();
  hooks.Add<at::_ops::unique_dim>();
  hooks.Add<at::_ops::_aminmax>();
  hooks.Add<at::_ops::frexp_Tensor>();
  hooks.Add<at::_ops::geqrf>();
  hooks.Add<at::_ops::linalg_eig>();
  hooks.Add<at::_ops::log_sigmoid_forward>();
  hooks.Add<at::_ops::sort_stable>();
  hooks.Add<at::_ops::aminmax>();
  hooks.Add<at::_ops::adaptive_max_pool2d>();
  hooks.Add<at::_ops::adaptive_max_pool3d>();
  hooks.Add<at::_ops::max_pool2d_with_indices>();
  hooks.Add<at::_ops::max_pool3d_with_indices>();
  hooks.Add<at::_ops::fractional_max_pool2d>();
  hooks.Add<at::_ops::fractional_max_pool3d>();
  hooks.Add<at::_ops::_fused_rms_norm>();
  hooks.Add<at::_ops::std_mean_correction>();
  hooks.Add<at::_ops::var_mean_correction>();
  hooks.Add<at::_ops::linalg_inv_ex>();
  hooks.Add<at::_ops::_unique>();
  hooks.Add<at::_ops::linalg_cholesky_ex>();
  hooks.Add<at::_ops::kthvalue>();
  hooks.Add<at::_ops::topk>();
  hooks.Add<at::_ops::linalg_qr>();
  hooks.Add<at::_ops::_linalg_eigh>();
  hooks.Add<at::_ops::batch_norm_update_stats>();
  hooks.Add<at::_ops::_ctc_loss>();
  hooks.Add<at::_ops::_cudnn_ctc_loss>();
  hooks.Add<at::_ops::_fused_rms_norm_backward>();
  hooks.Add<at::_ops::_pack_padded_sequence>();
  hooks.Add<at::_ops::triangular_solve>();
  hooks.Add<at::_ops::histogram_bins_tensor>();
  hooks.Add<at::_ops::nll_loss2d_forward>();
  hooks.Add<at::_ops::nll_loss_forward>();
  hooks.Add<at::_ops::_prelu_kernel_backward>();
  hooks.Add<at::_ops::cudnn_grid_sampler_backward>();
  hooks.Add<at::_ops::_fused_moving_avg_obs_fq_helper>();
}

}  // namespace reprise::bindings
