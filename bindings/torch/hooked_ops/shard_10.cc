// Written by scripts/generate_hooks.py; do not edit.

#include <ATen/Operators.h>

#include "bindings/torch/hook_registrar.h"
#include "bindings/torch/hooked_ops/shards.h"

namespace reprise::bindings {

void RegisterShard10(HookRegistrar& hooks) {
  hooks.Add<at::_ops::hash_tensor>();
  hooks.Add<at::_ops::_fft_r2c>();
  hooks.Add<at::_ops::_fft_c2r>();
  hooks.Add<at::_ops::all_dims>();
  hooks.Add<at::_ops::any_dims>();
  hooks.Add<at::_ops::mean_dim>();
  hooks.Add<at::_ops::nansum>();
  hooks.Add<at::_ops::sum_dim_IntList>();
  hooks.Add<at::_ops::std_correction>();
  hooks.Add<at::_ops::var_correction>();
  hooks.Add<at::_ops::rrelu_with_noise>();
  hooks.Add<at::_ops::_padded_dense_to_jagged_forward>();
  hooks.Add<at::_ops::_jagged_to_padded_dense_forward>();
  hooks.Add<at::_ops::_histogramdd_from_bin_tensors>();
  hooks.Add<at::_ops::cholesky>();
  hooks.Add<at::_ops::cholesky_inverse>();
  hooks.Add<at::_ops::_foobar>();
  hooks.Add<at::_ops::channel_shuffle>();
  hooks.Add<at::_ops::native_channel_shuffle>();
  hooks.Add<at::_ops::tril>();
  hooks.Add<at::_ops::triu>();
  hooks.Add<at::_ops::randint_like_generator>();
  hooks.Add<at::_ops::randint_like>();
  hooks.Add<at::_ops::multinomial>();
  hooks.Add<at::_ops::randint_like_low_generator_dtype>();
  hooks.Add<at::_ops::randint_like_low_dtype>();
  hooks.Add<at::_ops::nonzero_static>();
  hooks.Add<at::_ops::_adaptive_avg_pool2d>();
  hooks.Add<at::_ops::_adaptive_avg_pool3d>();
  hooks.Add<at::_ops::_unsafe_view>();
  hooks.Add<at::_ops::reflection_pad1d>();
  hooks.Add<at::_ops::reflection_pad2d>();
  hooks.Add<at::_ops::reflection_pad3d>();
  hooks.Add<at::_ops::repeat>();
  hooks.Add<at::_ops::replication_pad1d>();
  hooks.Add<at::_ops::replication_pad2d>();
  hooks.Add<at::_ops::replication_pad3d>();
  hooks.Add<at::_ops::new_empty>();
  hooks.Add<at::_ops::new_ones>();
  hooks.Add<at::_ops::new_zeros>();
  hooks.Add<at::_ops::_upsample_nearest_exact1d>();
  hooks.Add<at::_ops::upsample_nearest1d>();
  hooks.Add<at::_ops::_upsample_nearest_exact2d>();
  hooks.Add<at::_ops::upsample_nearest2d>();
  hooks.Add<at::_ops::_upsample_nearest_exact3d>();
  hooks.Add<at::_ops::upsample_nearest3d>();
  hooks.Add<at::_ops::roll>();
  hooks.Add<at::_ops::col2im>();
  hooks.Add<at::_ops::affine_grid_generator>();
  hooks.Add<at::_ops::upsample_linear1d>();
  hooks.Add<at::_ops::_upsample_bicubic2d_aa>();
  hooks.Add<at::_ops::_upsample_bilinear2d_aa>();
  hooks.Add<at::_ops::upsample_bicubic2d>();
  hooks.Add<at::_ops::upsample_bilinear2d>();
  hooks.Add<at::_ops::upsample_trilinear3d>();
  hooks.Add<at::_ops::new_empty_strided>();
  hooks.Add<at::_ops::_upsample_nearest_exact1d_backward>();
  hooks.Add<at::_ops::upsample_nearest1d_backward>();
  hooks.Add<at::_ops::_upsample_nearest_exact2d_backward>();
  hooks.Add<at::_ops::upsample_nearest2d_backward>();
  hooks.Add<at::_ops::_upsample_nearest_exact3d_backward>();
  hooks.Add<at::_ops::upsample_nearest3d_backward>();
  hooks.Add<at::_ops::upsample_linear1d_backward>();
  hooks.Add<at::_ops::_upsample_bicubic2d_aa_backward>();
  hooks.Add<at::_ops::_upsample_bilinear2d_aa_backward>();
  hooks.Add<at::_ops::upsample_bicubic2d_backward>();
  hooks.Add<at::_ops::upsample_bilinear2d_backward>();
  hooks.Add<at::_ops::upsample_trilinear3d_backward>();
  hooks.Add<at::_ops::constant_pad_nd>();
}

}  // namespace reprise::bindings
