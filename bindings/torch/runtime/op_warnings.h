// What ops tell the program by TORCH_WARN.

#ifndef REPRISE_BINDINGS_TORCH_RUNTIME_OP_WARNINGS_H_
#define REPRISE_BINDINGS_TORCH_RUNTIME_OP_WARNINGS_H_

#include <c10/util/Exception.h>

namespace reprise::bindings {

// A warning belongs to the op that gives it: it comes when eager runs the op,
// goes to whoever handles warnings of the thread (in a call from Python, a list
// that becomes Python's warnings, or an error, at the end of that very call),
// and comes once. So an op that warned is run by eager (OpView::warned), and
// what is run beside eager or ahead of it tells nobody.

// Notes, from Begin to End on one thread, whether an op warns; what it says
// goes on to where it would have gone.
class OpWarnings final : public c10::WarningHandler {
 public:
  OpWarnings() = default;
  ~OpWarnings() override { End(); }
  OpWarnings(const OpWarnings&) = delete;
  OpWarnings& operator=(const OpWarnings&) = delete;

  void Begin() {
    before_ = c10::WarningUtils::get_warning_handler();
    c10::WarningUtils::set_warning_handler(this);
  }
  // Once is enough.
  void End() {
    if (before_ == nullptr) return;
    c10::WarningUtils::set_warning_handler(before_);
    before_ = nullptr;
  }
  // Some came.
  bool any() const { return any_; }

  void process(const c10::Warning& warning) override;

 private:
  c10::WarningHandler* before_ = nullptr;  // null: not between the two
  bool any_ = false;
};

// While it lives, nobody is told of the warnings of this thread.
class UntoldWarnings final : public c10::WarningHandler {
 public:
  UntoldWarnings() : guard_(this) {}

  // Some came.
  bool any() const { return any_; }

  void process(const c10::Warning&) override { any_ = true; }

 private:
  bool any_ = false;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_RUNTIME_OP_WARNINGS_H_
