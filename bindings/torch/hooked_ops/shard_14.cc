// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard14(HookRegistrar& hooks) {
  hooks.Add<at::_ops::huber_loss>();
  hooks.Add<at::_ops::smooth_l1_loss>();
  hooks.AddFactory<at::_ops::logspace_Tensor_Tensor>();
  hooks.Add<at::_ops::_grid_sampler_2d_cpu_fallback>();
  hooks.Add<at::_ops::grid_sampler_2d>();
  hooks.Add<at::_ops::grid_sampler_3d>();
  hooks.Add<at::_ops::_dyn_quant_matmul_4bit>();
  hooks.Add<at::_ops::diagonal_scatter>();
  hooks.Add<at::_ops::_unsafe_index_Tensor>();
  hooks.Add<at::_ops::index_Tensor>();
  hooks.Add<at::_ops::_unsafe_index_put>();
  hooks.Add<at::_ops::index_put>();
  hooks.Add<at::_ops::_pdist_forward>();
  hooks.Add<at::_ops::bernoulli_p>();
  hooks.Add<at::_ops::normal_Tensor_float>();
  hooks.Add<at::_ops::normal_functional>();
  hooks.Add<at::_ops::_make_per_tensor_quantized_tensor>();
  hooks.Add<at::_ops::_convert_weight_to_int4pack>();
  hooks.Add<at::_ops::_convert_weight_to_int4pack_for_cpu>();
  hooks.Add<at::_ops::_logcumsumexp>();
  hooks.Add<at::_ops::glu>();
  hooks.Add<at::_ops::logcumsumexp>();
  hooks.Add<at::_ops::mvlgamma>();
  hooks.Add<at::_ops::pixel_shuffle>();
  hooks.Add<at::_ops::pixel_unshuffle>();
  hooks.Add<at::_ops::round_decimals>();
  hooks.Add<at::_ops::_safe_softmax>();
  hooks.Add<at::_ops::cumprod>();
  hooks.Add<at::_ops::cumsum>();
  hooks.Add<at::_ops::rot90>();
  hooks.Add<at::_ops::_log_softmax>();
  hooks.Add<at::_ops::_softmax>();
  hooks.Add<at::_ops::all_dim>();
  hooks.Add<at::_ops::any_dim>();
  hooks.Add<at::_ops::prod_dim_int>();
  hooks.Add<at::_ops::histc>();
  hooks.Add<at::_ops::index_select>();
  hooks.Add<at::_ops::gather>();
  hooks.Add<at::_ops::index_fill_int_Scalar>();
  hooks.Add<at::_ops::scatter_value>();
  hooks.Add<at::_ops::scatter_value_reduce>();
  hooks.Add<at::_ops::index_fill_int_Tensor>();
  hooks.Add<at::_ops::scatter_add>();
  hooks.Add<at::_ops::scatter_src>();
  hooks.Add<at::_ops::scatter_reduce>();
  hooks.Add<at::_ops::index_reduce>();
  hooks.Add<at::_ops::scatter_reduce_two>();
  hooks.Add<at::_ops::index_add>();
  hooks.Add<at::_ops::_transformer_encoder_layer_fwd>();
  hooks.Add<at::_ops::diag_embed>();
  hooks.Add<at::_ops::cudnn_affine_grid_generator>();
  hooks.Add<at::_ops::cudnn_affine_grid_generator_backward>();
  hooks.AddFactory<at::_ops::_cudnn_init_dropout_state>();
  hooks.Add<at::_ops::normal_float_Tensor>();
  hooks.AddFactory<at::_ops::normal_float_float>();
  hooks.AddFactory<at::_ops::bartlett_window>();
  hooks.AddFactory<at::_ops::blackman_window>();
  hooks.AddFactory<at::_ops::hamming_window>();
  hooks.AddFactory<at::_ops::hann_window>();
  hooks.AddFactory<at::_ops::kaiser_window>();
  hooks.AddFactory<at::_ops::bartlett_window_periodic>();
  hooks.AddFactory<at::_ops::blackman_window_periodic>();
  hooks.AddFactory<at::_ops::hamming_window_periodic>();
  hooks.AddFactory<at::_ops::hann_window_periodic>();
  hooks.AddFactory<at::_ops::kaiser_window_periodic>();
  hooks.AddFactory<at::_ops::hamming_window_periodic_alpha>();
  hooks.AddFactory<at::_ops::kaiser_window_beta>();
  hooks.AddFactory<at::_ops::hamming_window_periodic_alpha_beta>();
  hooks.Add<at::_ops::polygamma>();
  hooks.AddFactory<at::_ops::fft_fftfreq>();
  hooks.AddFactory<at::_ops::fft_rfftfreq>();
  hooks.AddFactory<at::_ops::tril_indices>();
  hooks.AddFactory<at::_ops::triu_indices>();
  hooks.Add<at::_ops::is_coalesced>();
}

}  // namespace reprise::bindings
