// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard15(HookRegistrar& hooks) {
  hooks.Add<at::_ops::is_pinned>();
  hooks.Add<at::_ops::_has_same_storage_numel>();
  hooks.Add<at::_ops::equal>();
  hooks.Add<at::_ops::is_same_size>();
  hooks.Add<at::_ops::is_set_to>();
  hooks.Add<at::_ops::_use_cudnn_ctc_loss>();
  hooks.Add<at::_ops::_use_cudnn_ctc_loss_Tensor>();
  hooks.Add<at::_ops::allclose>();
  hooks.Add<at::_ops::resize_>();
  hooks.Add<at::_ops::resize_as_>();
  hooks.Add<at::_ops::dense_dim>();
  hooks.Add<at::_ops::_fused_sdp_choice>();
  hooks.Add<at::_ops::record_stream>();
  hooks.Add<at::_ops::_foreach_abs_>();
  hooks.Add<at::_ops::_foreach_acos_>();
  hooks.Add<at::_ops::_foreach_asin_>();
  hooks.Add<at::_ops::_foreach_atan_>();
  hooks.Add<at::_ops::_foreach_ceil_>();
  hooks.Add<at::_ops::_foreach_cos_>();
  hooks.Add<at::_ops::_foreach_cosh_>();
  hooks.Add<at::_ops::_foreach_erf_>();
  hooks.Add<at::_ops::_foreach_erfc_>();
  hooks.Add<at::_ops::_foreach_exp_>();
  hooks.Add<at::_ops::_foreach_expm1_>();
  hooks.Add<at::_ops::_foreach_floor_>();
  hooks.Add<at::_ops::_foreach_frac_>();
  hooks.Add<at::_ops::_foreach_lgamma_>();
  hooks.Add<at::_ops::_foreach_log10_>();
  hooks.Add<at::_ops::_foreach_log1p_>();
  hooks.Add<at::_ops::_foreach_log2_>();
  hooks.Add<at::_ops::_foreach_log_>();
  hooks.Add<at::_ops::_foreach_neg_>();
  hooks.Add<at::_ops::_foreach_reciprocal_>();
  hooks.Add<at::_ops::_foreach_round_>();
  hooks.Add<at::_ops::_foreach_rsqrt_>();
  hooks.Add<at::_ops::_foreach_sigmoid_>();
  hooks.Add<at::_ops::_foreach_sign_>();
  hooks.Add<at::_ops::_foreach_sin_>();
  hooks.Add<at::_ops::_foreach_sinh_>();
  hooks.Add<at::_ops::_foreach_sqrt_>();
  hooks.Add<at::_ops::_foreach_tan_>();
  hooks.Add<at::_ops::_foreach_tanh_>();
  hooks.Add<at::_ops::_foreach_trunc_>();
  hooks.Add<at::_ops::_foreach_zero_>();
  hooks.Add<at::_ops::_foreach_add__ScalarList>();
  hooks.Add<at::_ops::_foreach_clamp_max__ScalarList>();
  hooks.Add<at::_ops::_foreach_clamp_min__ScalarList>();
  hooks.Add<at::_ops::_foreach_div__ScalarList>();
  hooks.Add<at::_ops::_foreach_maximum__ScalarList>();
  hooks.Add<at::_ops::_foreach_minimum__ScalarList>();
  hooks.Add<at::_ops::_foreach_mul__ScalarList>();
  hooks.Add<at::_ops::_foreach_pow__ScalarList>();
  hooks.Add<at::_ops::_foreach_sub__ScalarList>();
  hooks.Add<at::_ops::_amp_foreach_non_finite_check_and_unscale_>();
  hooks.Add<at::_ops::_foreach_clamp_max__List>();
  hooks.Add<at::_ops::_foreach_clamp_min__List>();
  hooks.Add<at::_ops::_foreach_div__List>();
  hooks.Add<at::_ops::_foreach_maximum__List>();
  hooks.Add<at::_ops::_foreach_minimum__List>();
  hooks.Add<at::_ops::_foreach_mul__List>();
  hooks.Add<at::_ops::_foreach_pow__List>();
  hooks.Add<at::_ops::_foreach_lerp__ScalarList>();
  hooks.Add<at::_ops::_foreach_lerp__List>();
  hooks.Add<at::_ops::_foreach_addcdiv__ScalarList>();
  hooks.Add<at::_ops::_foreach_addcmul__ScalarList>();
  hooks.Add<at::_ops::_fused_adam__tensor_lr>();
  hooks.Add<at::_ops::_fused_adamw__tensor_lr>();
  hooks.Add<at::_ops::_fused_adam_>();
  hooks.Add<at::_ops::_fused_adamw_>();
  hooks.Add<at::_ops::_fused_adagrad__tensor_lr>();
  hooks.Add<at::_ops::_fused_adagrad_>();
  hooks.Add<at::_ops::_foreach_addcdiv__Scalar>();
  hooks.Add<at::_ops::_foreach_addcmul__Scalar>();
  hooks.Add<at::_ops::_foreach_addcdiv__Tensor>();
  hooks.Add<at::_ops::_foreach_addcmul__Tensor>();
  hooks.Add<at::_ops::_fused_sgd__tensor_lr>();
  hooks.Add<at::_ops::_fused_sgd_>();
  hooks.Add<at::_ops::_foreach_copy_>();
  hooks.Add<at::_ops::_foreach_add__List>();
  hooks.Add<at::_ops::_foreach_lerp__Scalar>();
  hooks.Add<at::_ops::_foreach_sub__List>();
  hooks.Add<at::_ops::_foreach_add__Scalar>();
  hooks.Add<at::_ops::_foreach_clamp_max__Scalar>();
  hooks.Add<at::_ops::_foreach_clamp_min__Scalar>();
  hooks.Add<at::_ops::_foreach_div__Scalar>();
  hooks.Add<at::_ops::_foreach_maximum__Scalar>();
  hooks.Add<at::_ops::_foreach_minimum__Scalar>();
  hooks.Add<at::_ops::_foreach_mul__Scalar>();
  hooks.Add<at::_ops::_foreach_pow__Scalar>();
  hooks.Add<at::_ops::_foreach_sub__Scalar>();
  hooks.Add<at::_ops::_foreach_div__Tensor>();
  hooks.Add<at::_ops::_foreach_mul__Tensor>();
  hooks.Add<at::_ops::_foreach_add__Tensor>();
  hooks.Add<at::_ops::_print>();
  hooks.Add<at::_ops::sym_constrain_range>();
  hooks.Add<at::_ops::sym_constrain_range_for_size>();
  hooks.Add<at::_ops::_assert_scalar>();
  hooks.Add<at::_ops::_assert_async>();
  hooks.Add<at::_ops::_assert_tensor_metadata>();
  hooks.Add<at::_ops::_cummax_helper>();
  hooks.Add<at::_ops::_cummin_helper>();
  hooks.Add<at::_ops::_assert_async_msg>();
  hooks.Add<at::_ops::_linalg_check_errors>();
}

}  // namespace reprise::bindings
