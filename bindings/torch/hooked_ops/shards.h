// Written by scripts/generate_hooks.py; do not edit.
//
// 1578 operators of torch 2.11, those of one C++ signature together.

#ifndef REPRISE_BINDINGS_TORCH_HOOKED_OPS_SHARDS_H_
#define REPRISE_BINDINGS_TORCH_HOOKED_OPS_SHARDS_H_

namespace reprise::bindings {

class HookRegistrar;

void RegisterShard00(HookRegistrar& hooks);
void RegisterShard01(HookRegistrar& hooks);
void RegisterShard02(HookRegistrar& hooks);
void RegisterShard03(HookRegistrar& hooks);
void RegisterShard04(HookRegistrar& hooks);
void RegisterShard05(HookRegistrar& hooks);
void RegisterShard06(HookRegistrar& hooks);
void RegisterShard07(HookRegistrar& hooks);
void RegisterShard08(HookRegistrar& hooks);
void RegisterShard09(HookRegistrar& hooks);
void RegisterShard10(HookRegistrar& hooks);
void RegisterShard11(HookRegistrar& hooks);
void RegisterShard12(HookRegistrar& hooks);
void RegisterShard13(HookRegistrar& hooks);
void RegisterShard14(HookRegistrar& hooks);
void RegisterShard15(HookRegistrar& hooks);

inline void RegisterShards(HookRegistrar& hooks) {
  RegisterShard00(hooks);
  RegisterShard01(hooks);
  RegisterShard02(hooks);
  RegisterShard03(hooks);
  RegisterShard04(hooks);
  RegisterShard05(hooks);
  RegisterShard06(hooks);
  RegisterShard07(hooks);
  RegisterShard08(hooks);
  RegisterShard09(hooks);
  RegisterShard10(hooks);
  RegisterShard11(hooks);
  RegisterShard12(hooks);
  RegisterShard13(hooks);
  RegisterShard14(hooks);
  RegisterShard15(hooks);
}

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_HOOKED_OPS_SHARDS_H_
