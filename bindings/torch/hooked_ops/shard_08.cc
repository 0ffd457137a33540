// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard08(HookRegistrar& hooks) {
  hooks.Add<at::_ops::multilabel_margin_loss_backward_grad_input>();
  hooks.Add<at::_ops::huber_loss_backward_out>();
  hooks.Add<at::_ops::smooth_l1_loss_backward_grad_input>();
  hooks.Add<at::_ops::_log_softmax_backward_data_out>();
  hooks.Add<at::_ops::_softmax_backward_data_out>();
  hooks.Add<at::_ops::glu_backward_grad_input>();
  hooks.Add<at::_ops::linalg_cross_out>();
  hooks.Add<at::_ops::linspace_Tensor_Tensor_out>();
  hooks.Add<at::_ops::mse_loss_out>();
  hooks.Add<at::_ops::soft_margin_loss_out>();
  hooks.Add<at::_ops::huber_loss_out>();
  hooks.Add<at::_ops::logspace_Tensor_Tensor_out>();
  hooks.Add<at::_ops::smooth_l1_loss_out>();
  hooks.Add<at::_ops::index_Tensor_out>();
  hooks.Add<at::_ops::normal_Tensor_float_out>();
  hooks.Add<at::_ops::cumprod_out>();
  hooks.Add<at::_ops::cumsum_out>();
  hooks.Add<at::_ops::log_softmax_int_out>();
  hooks.Add<at::_ops::softmax_int_out>();
  hooks.Add<at::_ops::_logcumsumexp_out>();
  hooks.Add<at::_ops::glu_out>();
  hooks.Add<at::_ops::logcumsumexp_out>();
  hooks.Add<at::_ops::mvlgamma_out>();
  hooks.Add<at::_ops::round_decimals_out>();
  hooks.Add<at::_ops::prod_int_out>();
  hooks.Add<at::_ops::_log_softmax_out>();
  hooks.Add<at::_ops::_softmax_out>();
  hooks.Add<at::_ops::all_out>();
  hooks.Add<at::_ops::any_out>();
  hooks.Add<at::_ops::histc_out>();
  hooks.Add<at::_ops::index_select_out>();
  hooks.Add<at::_ops::gather_out>();
  hooks.Add<at::_ops::scatter_value_out>();
  hooks.Add<at::_ops::scatter_value_reduce_out>();
  hooks.Add<at::_ops::scatter_add_out>();
  hooks.Add<at::_ops::scatter_src_out>();
  hooks.Add<at::_ops::scatter_reduce_out>();
  hooks.Add<at::_ops::index_reduce_out>();
  hooks.Add<at::_ops::scatter_reduce_two_out>();
  hooks.Add<at::_ops::index_add_out>();
  hooks.Add<at::_ops::normal_float_Tensor_out>();
  hooks.Add<at::_ops::normal_float_float_out>();
  hooks.Add<at::_ops::polygamma_out>();
  hooks.Add<at::_ops::fft_fftfreq_out>();
  hooks.Add<at::_ops::fft_rfftfreq_out>();
  hooks.AddFactory<at::_ops::_make_dep_token>();
  hooks.Add<at::_ops::block_diag>();
  hooks.Add<at::_ops::_stack>();
  hooks.Add<at::_ops::stack>();
  hooks.Add<at::_ops::_cudnn_rnn_flatten_weight>();
  hooks.Add<at::_ops::_chunk_cat>();
  hooks.AddFactory<at::_ops::randperm_generator>();
  hooks.AddFactory<at::_ops::eye>();
  hooks.AddFactory<at::_ops::randperm>();
  hooks.AddFactory<at::_ops::eye_m>();
  hooks.AddFactory<at::_ops::randint_low_generator>();
  hooks.AddFactory<at::_ops::randint_low>();
  hooks.AddFactory<at::_ops::randint_generator>();
  hooks.AddFactory<at::_ops::randint>();
  hooks.AddFactory<at::_ops::rand_generator>();
  hooks.AddFactory<at::_ops::randn_generator>();
  hooks.AddFactory<at::_ops::ones>();
  hooks.AddFactory<at::_ops::rand>();
  hooks.AddFactory<at::_ops::randn>();
  hooks.AddFactory<at::_ops::zeros>();
}

}  // namespace reprise::bindings
