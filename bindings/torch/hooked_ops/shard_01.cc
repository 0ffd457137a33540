// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard01(HookRegistrar& hooks) {
  hooks.Add<at::_ops::_flash_attention_forward_quantized>();
  hooks.Add<at::_ops::_scaled_dot_product_cudnn_attention>();
  hooks.Add<at::_ops::_cudnn_attention_forward>();
  hooks.Add<at::_ops::_scaled_dot_product_flash_attention_quantized>();
  hooks.Add<at::_ops::_scaled_dot_product_fused_attention_overrideable>();
  hooks.Add<at::_ops::_scaled_dot_product_flash_attention>();
  hooks.Add<at::_ops::_efficient_attention_forward>();
  hooks.Add<at::_ops::_linalg_slogdet>();
  hooks.Add<at::_ops::_batch_norm_with_update>();
  hooks.Add<at::_ops::_batch_norm_no_update>();
  hooks.Add<at::_ops::linalg_lstsq>();
  hooks.Add<at::_ops::_linalg_solve_ex>();
  hooks.Add<at::_ops::cudnn_batch_norm>();
  hooks.Add<at::_ops::_embedding_bag>();
  hooks.Add<at::_ops::_embedding_bag_forward_only>();
  hooks.Add<at::_ops::_scaled_dot_product_efficient_attention>();
  hooks.Add<at::_ops::batch_norm_backward_reduce>();
  hooks.Add<at::_ops::_efficient_attention_backward>();
  hooks.Add<
      at::_ops::_scaled_dot_product_fused_attention_overrideable_backward>();
  hooks.Add<at::_ops::_scaled_dot_product_efficient_attention_backward>();
  hooks.Add<at::_ops::_thnn_fused_lstm_cell_backward_impl>();
  hooks.Add<at::_ops::_linalg_det>();
  hooks.Add<at::_ops::linalg_lu>();
  hooks.Add<at::_ops::linalg_ldl_factor_ex>();
  hooks.Add<at::_ops::linalg_lu_factor_ex>();
  hooks.Add<at::_ops::_linalg_svd>();
  hooks.Add<at::_ops::unique_consecutive>();
  hooks.Add<at::_ops::_unique2>();
  hooks.Add<at::_ops::native_layer_norm>();
  hooks.Add<at::_ops::_native_batch_norm_legit>();
  hooks.Add<at::_ops::_native_batch_norm_legit_no_stats>();
  hooks.Add<at::_ops::native_group_norm>();
  hooks.Add<at::_ops::native_batch_norm>();
  hooks.Add<at::_ops::_native_batch_norm_legit_no_training>();
  hooks.Add<at::_ops::lu_unpack>();
  hooks.Add<at::_ops::native_layer_norm_backward>();
  hooks.Add<at::_ops::native_batch_norm_backward>();
  hooks.Add<at::_ops::convolution_backward>();
  hooks.Add<at::_ops::_slow_conv2d_backward_output_mask>();
  hooks.Add<at::_ops::convolution_backward_overrideable>();
}

}  // namespace reprise::bindings
