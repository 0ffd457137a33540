// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard12(HookRegistrar& hooks) {
  hooks.Add<at::_ops::fractional_max_pool2d_backward>();
  hooks.Add<at::_ops::fractional_max_pool3d_backward>();
  hooks.Add<at::_ops::bmm_dtype>();
  hooks.Add<at::_ops::mm_dtype>();
  hooks.Add<at::_ops::_scaled_mm_v2>();
  hooks.Add<at::_ops::_scaled_grouped_mm_v2>();
  hooks.Add<at::_ops::_cholesky_solve_helper>();
  hooks.Add<at::_ops::cholesky_solve>();
  hooks.Add<at::_ops::copy>();
  hooks.Add<at::_ops::bucketize_Tensor>();
  hooks.Add<at::_ops::isin_Tensor_Tensor>();
  hooks.Add<at::_ops::searchsorted_Tensor>();
  hooks.Add<at::_ops::linalg_solve_triangular>();
  hooks.Add<at::_ops::embedding>();
  hooks.Add<at::_ops::embedding_dense_backward>();
  hooks.Add<at::_ops::masked_scatter_backward>();
  hooks.Add<at::_ops::max_unpool2d>();
  hooks.Add<at::_ops::reflection_pad1d_backward>();
  hooks.Add<at::_ops::reflection_pad2d_backward>();
  hooks.Add<at::_ops::reflection_pad3d_backward>();
  hooks.Add<at::_ops::replication_pad1d_backward>();
  hooks.Add<at::_ops::replication_pad2d_backward>();
  hooks.Add<at::_ops::replication_pad3d_backward>();
  hooks.Add<at::_ops::max_unpool3d>();
  hooks.Add<at::_ops::as_strided_scatter>();
  hooks.Add<at::_ops::cudnn_convolution>();
  hooks.Add<at::_ops::cudnn_convolution_transpose>();
  hooks.Add<at::_ops::_slow_conv2d_forward>();
  hooks.Add<at::_ops::slow_conv3d_forward>();
  hooks.Add<at::_ops::_conv_depthwise2d>();
  hooks.Add<at::_ops::conv_depthwise3d>();
  hooks.Add<at::_ops::slow_conv_dilated2d>();
  hooks.Add<at::_ops::slow_conv_dilated3d>();
  hooks.Add<at::_ops::slow_conv_transpose2d>();
  hooks.Add<at::_ops::slow_conv_transpose3d>();
  hooks.Add<at::_ops::gelu_backward>();
  hooks.Add<at::_ops::_nnpack_spatial_convolution>();
  hooks.Add<at::_ops::convolution>();
  hooks.Add<at::_ops::convolution_overrideable>();
  hooks.Add<at::_ops::_convolution>();
  hooks.Add<at::_ops::cudnn_convolution_relu>();
  hooks.Add<at::_ops::_grouped_mm>();
  hooks.Add<at::_ops::binary_cross_entropy_with_logits>();
  hooks.Add<at::_ops::binary_cross_entropy>();
  hooks.Add<at::_ops::_dyn_quant_pack_4bit_weight>();
  hooks.Add<at::_ops::_add_relu_Tensor>();
  hooks.Add<at::_ops::add_Tensor>();
  hooks.Add<at::_ops::dist>();
  hooks.Add<at::_ops::hardshrink_backward>();
  hooks.Add<at::_ops::lerp_Scalar>();
  hooks.Add<at::_ops::masked_fill_Scalar>();
  hooks.Add<at::_ops::rsub_Tensor>();
  hooks.Add<at::_ops::softshrink_backward>();
  hooks.Add<at::_ops::sub_Tensor>();
  hooks.Add<at::_ops::threshold_backward>();
  hooks.Add<at::_ops::leaky_relu_backward>();
  hooks.Add<at::_ops::hardtanh_backward>();
  hooks.Add<at::_ops::softplus_backward>();
  hooks.Add<at::_ops::multi_margin_loss>();
  hooks.Add<at::_ops::_dirichlet_grad>();
  hooks.Add<at::_ops::_weight_int8pack_mm>();
  hooks.Add<at::_ops::adaptive_max_pool2d_backward>();
  hooks.Add<at::_ops::adaptive_max_pool3d_backward>();
  hooks.Add<at::_ops::lerp_Tensor>();
  hooks.Add<at::_ops::log_sigmoid_backward>();
  hooks.Add<at::_ops::masked_fill_Tensor>();
  hooks.Add<at::_ops::masked_scatter>();
  hooks.Add<at::_ops::where_self>();
  hooks.Add<at::_ops::_masked_softmax_backward>();
  hooks.Add<at::_ops::_trilinear>();
  hooks.Add<at::_ops::_ctc_loss_backward>();
  hooks.Add<at::_ops::addmm_dtype>();
  hooks.Add<at::_ops::baddbmm_dtype>();
  hooks.Add<at::_ops::linalg_ldl_solve>();
  hooks.Add<at::_ops::put>();
  hooks.Add<at::_ops::linalg_lu_solve>();
  hooks.Add<at::_ops::ormqr>();
}

}  // namespace reprise::bindings
