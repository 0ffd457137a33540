// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard06(HookRegistrar& hooks) {
  hooks.Add<at::_ops::rrelu_with_noise_out>();
  hooks.Add<at::_ops::cholesky_inverse_out>();
  hooks.Add<at::_ops::cholesky_out>();
  hooks.Add<at::_ops::tril_out>();
  hooks.Add<at::_ops::triu_out>();
  hooks.Add<at::_ops::multinomial_out>();
  hooks.Add<at::_ops::nonzero_static_out>();
  hooks.Add<at::_ops::_upsample_nearest_exact3d_out>();
  hooks.Add<at::_ops::upsample_nearest3d_out>();
  hooks.Add<at::_ops::_upsample_nearest_exact2d_out>();
  hooks.Add<at::_ops::upsample_nearest2d_out>();
  hooks.Add<at::_ops::_upsample_nearest_exact1d_out>();
  hooks.Add<at::_ops::upsample_nearest1d_out>();
  hooks.Add<at::_ops::col2im_out>();
  hooks.Add<at::_ops::adaptive_avg_pool2d_out>();
  hooks.Add<at::_ops::adaptive_avg_pool3d_out>();
  hooks.Add<at::_ops::reflection_pad1d_out>();
  hooks.Add<at::_ops::reflection_pad2d_out>();
  hooks.Add<at::_ops::reflection_pad3d_out>();
  hooks.Add<at::_ops::replication_pad1d_out>();
  hooks.Add<at::_ops::replication_pad2d_out>();
  hooks.Add<at::_ops::replication_pad3d_out>();
  hooks.Add<at::_ops::upsample_trilinear3d_out>();
  hooks.Add<at::_ops::_upsample_bicubic2d_aa_out>();
  hooks.Add<at::_ops::_upsample_bilinear2d_aa_out>();
  hooks.Add<at::_ops::upsample_bicubic2d_out>();
  hooks.Add<at::_ops::upsample_bilinear2d_out>();
  hooks.Add<at::_ops::upsample_linear1d_out>();
  hooks.Add<at::_ops::_upsample_nearest_exact3d_backward_grad_input>();
  hooks.Add<at::_ops::upsample_nearest3d_backward_grad_input>();
  hooks.Add<at::_ops::_upsample_nearest_exact2d_backward_grad_input>();
  hooks.Add<at::_ops::upsample_nearest2d_backward_grad_input>();
  hooks.Add<at::_ops::_upsample_nearest_exact1d_backward_grad_input>();
  hooks.Add<at::_ops::upsample_nearest1d_backward_grad_input>();
  hooks.Add<at::_ops::upsample_trilinear3d_backward_grad_input>();
  hooks.Add<at::_ops::_upsample_bicubic2d_aa_backward_grad_input>();
  hooks.Add<at::_ops::_upsample_bilinear2d_aa_backward_grad_input>();
  hooks.Add<at::_ops::upsample_bicubic2d_backward_grad_input>();
  hooks.Add<at::_ops::upsample_bilinear2d_backward_grad_input>();
  hooks.Add<at::_ops::upsample_linear1d_backward_grad_input>();
  hooks.Add<at::_ops::_fft_c2c_out>();
  hooks.Add<at::_ops::gelu_out>();
  hooks.Add<at::_ops::norm_dtype_out>();
  hooks.Add<at::_ops::norm_out>();
  hooks.Add<at::_ops::clamp_out>();
  hooks.Add<at::_ops::clamp_Tensor_out>();
  hooks.Add<at::_ops::linalg_pinv_atol_rtol_tensor_out>();
  hooks.Add<at::_ops::batch_norm_elemt_out>();
  hooks.Add<at::_ops::linalg_vector_norm_out>();
  hooks.Add<at::_ops::bitwise_and_Scalar_out>();
  hooks.Add<at::_ops::bitwise_left_shift_Tensor_Scalar_out>();
  hooks.Add<at::_ops::bitwise_or_Scalar_out>();
  hooks.Add<at::_ops::bitwise_right_shift_Tensor_Scalar_out>();
  hooks.Add<at::_ops::bitwise_xor_Scalar_out>();
  hooks.Add<at::_ops::clamp_max_out>();
  hooks.Add<at::_ops::clamp_min_out>();
  hooks.Add<at::_ops::copysign_Scalar_out>();
  hooks.Add<at::_ops::eq_Scalar_out>();
  hooks.Add<at::_ops::fmod_Scalar_out>();
  hooks.Add<at::_ops::ge_Scalar_out>();
  hooks.Add<at::_ops::gt_Scalar_out>();
  hooks.Add<at::_ops::hardshrink_out>();
  hooks.Add<at::_ops::le_Scalar_out>();
  hooks.Add<at::_ops::leaky_relu_out>();
  hooks.Add<at::_ops::lt_Scalar_out>();
  hooks.Add<at::_ops::ne_Scalar_out>();
  hooks.Add<at::_ops::pow_Tensor_Scalar_out>();
  hooks.Add<at::_ops::remainder_Scalar_out>();
  hooks.Add<at::_ops::softshrink_out>();
  hooks.Add<at::_ops::special_chebyshev_polynomial_t_n_scalar_out>();
  hooks.Add<at::_ops::special_chebyshev_polynomial_u_n_scalar_out>();
  hooks.Add<at::_ops::special_chebyshev_polynomial_v_n_scalar_out>();
  hooks.Add<at::_ops::special_chebyshev_polynomial_w_n_scalar_out>();
  hooks.Add<at::_ops::special_hermite_polynomial_h_n_scalar_out>();
  hooks.Add<at::_ops::special_hermite_polynomial_he_n_scalar_out>();
  hooks.Add<at::_ops::special_laguerre_polynomial_l_n_scalar_out>();
  hooks.Add<at::_ops::special_legendre_polynomial_p_n_scalar_out>();
  hooks.Add<at::_ops::special_shifted_chebyshev_polynomial_t_n_scalar_out>();
  hooks.Add<at::_ops::special_shifted_chebyshev_polynomial_u_n_scalar_out>();
  hooks.Add<at::_ops::special_shifted_chebyshev_polynomial_v_n_scalar_out>();
  hooks.Add<at::_ops::special_shifted_chebyshev_polynomial_w_n_scalar_out>();
  hooks.Add<at::_ops::special_xlog1py_other_scalar_out>();
  hooks.Add<at::_ops::special_zeta_other_scalar_out>();
  hooks.Add<at::_ops::xlogy_OutScalar_Other>();
  hooks.Add<at::_ops::searchsorted_Scalar_out>();
  hooks.Add<at::_ops::isin_Tensor_Scalar_out>();
  hooks.Add<at::_ops::hardtanh_out>();
  hooks.Add<at::_ops::softplus_out>();
  hooks.Add<at::_ops::threshold_out>();
  hooks.Add<at::_ops::elu_out>();
  hooks.Add<at::_ops::elu_backward_grad_input>();
  hooks.Add<at::_ops::linspace_Tensor_Scalar_out>();
  hooks.Add<at::_ops::renorm_out>();
  hooks.Add<at::_ops::logspace_Tensor_Scalar_out>();
}

}  // namespace reprise::bindings
