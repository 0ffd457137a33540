// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard13(HookRegistrar& hooks) {
  hooks.Add<at::_ops::_segment_reduce_backward>();
  hooks.Add<at::_ops::cudnn_convolution_add_relu>();
  hooks.Add<at::_ops::_mixed_dtypes_linear>();
  hooks.Add<at::_ops::binary_cross_entropy_backward>();
  hooks.Add<at::_ops::nll_loss2d_backward>();
  hooks.Add<at::_ops::nll_loss_backward>();
  hooks.Add<at::_ops::addcdiv>();
  hooks.Add<at::_ops::addcmul>();
  hooks.Add<at::_ops::addbmm>();
  hooks.Add<at::_ops::addmm>();
  hooks.Add<at::_ops::addmv>();
  hooks.Add<at::_ops::addr>();
  hooks.Add<at::_ops::baddbmm>();
  hooks.Add<at::_ops::_addmm_activation>();
  hooks.Add<at::_ops::rrelu_with_noise_backward>();
  hooks.Add<at::_ops::multi_margin_loss_backward>();
  hooks.Add<at::_ops::_scaled_mm>();
  hooks.Add<at::_ops::_scaled_grouped_mm>();
  hooks.Add<at::_ops::batch_norm_backward_elemt>();
  hooks.Add<at::_ops::_embedding_bag_dense_backward>();
  hooks.Add<at::_ops::_embedding_bag_backward>();
  hooks.Add<at::_ops::_ctc_loss_backward_Tensor>();
  hooks.Add<at::_ops::glu_backward_jvp>();
  hooks.Add<at::_ops::_embedding_bag_per_sample_weights_backward>();
  hooks.Add<at::_ops::_triton_scaled_dot_attention>();
  hooks.Add<at::_ops::_cdist_backward>();
  hooks.Add<at::_ops::_make_per_channel_quantized_tensor>();
  hooks.Add<at::_ops::conv_tbc>();
  hooks.Add<at::_ops::glu_jvp>();
  hooks.Add<at::_ops::mse_loss_backward>();
  hooks.Add<at::_ops::soft_margin_loss_backward>();
  hooks.Add<at::_ops::multilabel_margin_loss_backward>();
  hooks.Add<at::_ops::huber_loss_backward>();
  hooks.Add<at::_ops::smooth_l1_loss_backward>();
  hooks.Add<at::_ops::_triton_multi_head_attention>();
  hooks.Add<at::_ops::_fake_quantize_learnable_per_tensor_affine>();
  hooks.Add<at::_ops::_fake_quantize_learnable_per_channel_affine>();
  hooks.Add<at::_ops::_unsafe_masked_index>();
  hooks.Add<at::_ops::_unsafe_masked_index_put_accumulate>();
  hooks.Add<at::_ops::_masked_scale>();
  hooks.Add<at::_ops::native_dropout_backward>();
  hooks.Add<at::_ops::_cdist_forward>();
  hooks.Add<at::_ops::_pdist_backward>();
  hooks.Add<at::_ops::_new_zeros_with_same_feature_meta>();
  hooks.Add<at::_ops::glu_backward>();
  hooks.Add<at::_ops::linalg_cross>();
  hooks.Add<at::_ops::mse_loss>();
  hooks.Add<at::_ops::soft_margin_loss>();
  hooks.AddFactory<at::_ops::linspace_Tensor_Tensor>();
  hooks.Add<at::_ops::slice_scatter>();
  hooks.Add<at::_ops::_log_softmax_backward_data>();
  hooks.Add<at::_ops::_softmax_backward_data>();
  hooks.Add<at::_ops::select_scatter>();
  hooks.Add<at::_ops::_weight_int4pack_mm>();
  hooks.Add<at::_ops::_weight_int4pack_mm_for_cpu>();
}

}  // namespace reprise::bindings
